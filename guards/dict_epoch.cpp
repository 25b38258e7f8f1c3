#include "guards/dict_epoch.h"

#include "frame_eval/ref.h"
#include "frame_eval/versions/dict_reads.h"

namespace framefuse {
namespace {

class Probe {
 public:
  Probe() : dict_(PyDict_New()), key_(PyUnicode_InternFromString("probe")) {
    const std::uint64_t first = Draw();
    step_ = Draw() - first;
    last_ = first + step_;
  }

  std::uint64_t Epoch() {
    const std::uint64_t drawn = Draw();
    if (drawn != last_ + step_) ++epoch_;
    last_ = drawn;
    return epoch_;
  }

 private:
  // Replacing a value takes the next version tag, and neither allocates nor frees.
  std::uint64_t Draw() {
    toggle_ = !toggle_;
    if (PyDict_SetItem(dict_, key_, toggle_ ? Py_True : Py_False) != 0) PyErr_Clear();
    return frame_ops::InlineDictVersion(dict_);
  }

  PyObject* dict_;  // lives as long as the process
  PyObject* key_;
  bool toggle_ = false;
  std::uint64_t step_ = 0, last_ = 0, epoch_ = 1;
};

}  // namespace

std::uint64_t DictEpoch() {
  static Probe probe;
  return probe.Epoch();
}

}  // namespace framefuse
