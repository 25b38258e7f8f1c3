#include "guards/dict_epoch.h"

#include "absl/container/flat_hash_map.h"
#include "frame_eval/ref.h"
#include "frame_eval/versions/dict_reads.h"
#include "frame_eval/versions/dict_watch.h"

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

// Changes told by CPython. A dict that is written time and again, as a module's globals may be in a loop, would move
// the epoch for all programs: after a few changes only its end does.
class Watched {
 public:
  static Watched& Get() {
    static auto* const watched = new Watched();
    return *watched;
  }
  bool running() const { return running_; }
  std::uint64_t epoch() const { return epoch_; }

  bool Keep(PyObject* dict) {
    if (!running_) return false;
    if (changes_.size() >= kMostKnown) Forget();
    if (!frame_ops::WatchDict(dict)) return false;
    const auto known = changes_.find(dict);
    return known == changes_.end() || known->second < kOften;
  }

 private:
  static constexpr int kOften = 4;
  static constexpr std::size_t kMostKnown = 4096;

  Watched() : running_(frame_ops::StartDictWatcher([](PyObject* dict, bool ends) { Get().Change(dict, ends); })) {}

  // What changes often says nothing from then on. Programs that relied on it check all, at the last time it did.
  void Change(PyObject* dict, bool ends) {
    if (ends) {
      if (dict == restless_) restless_ = nullptr;
      changes_.erase(dict);
      ++epoch_;
      return;
    }
    if (dict == restless_) return;
    int& changes = changes_[dict];
    if (changes >= kOften) {
      restless_ = dict;
      return;
    }
    ++changes;
    ++epoch_;
  }

  void Forget() {
    changes_.clear();
    restless_ = nullptr;
    ++epoch_;
  }

  const bool running_;
  std::uint64_t epoch_ = 1;
  absl::flat_hash_map<PyObject*, int> changes_;  // compared, never read through
  PyObject* restless_ = nullptr;                 // the last that changed of those that do so often
};

}  // namespace

bool EpochFollowsKeptDicts() { return Watched::Get().running(); }

bool KeepInEpoch(PyObject* dict) { return Watched::Get().Keep(dict); }

std::uint64_t DictEpoch() {
  const Watched& watched = Watched::Get();
  if (watched.running()) return watched.epoch();
  if (!frame_ops::kVersionsTellAllChanges) return 0;
  static Probe probe;
  return probe.Epoch();
}

}  // namespace framefuse
