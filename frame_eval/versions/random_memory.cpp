#include "frame_eval/versions/random_memory.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "frame_eval/import_module.h"
#include "frame_eval/ref.h"

namespace framefuse::frame_ops {
namespace {

constexpr std::size_t kWords = 624;

struct Twister {
  PyObject base;
  std::uint32_t index;
  std::uint32_t words[kWords];
};
static_assert(sizeof(Twister) - offsetof(Twister, index) >= kRandomMemorySize);

// What getstate() of the C part tells: the words, and the index behind them.
bool IsStateOf(const Twister& twister, PyObject* generator) {
  const Ref state = Ref::Steal(PyObject_CallMethod(generator, "getstate", nullptr));
  if (!state || !PyTuple_CheckExact(state.get()) || PyTuple_GET_SIZE(state.get()) != kWords + 1) return false;
  const auto is = [&](std::size_t i, std::uint32_t word) {
    return PyLong_AsUnsignedLong(PyTuple_GET_ITEM(state.get(), static_cast<Py_ssize_t>(i))) == word;
  };
  for (std::size_t i = 0; i < kWords; ++i) {
    if (!is(i, twister.words[i])) return false;
  }
  return is(kWords, twister.index);
}

double NextOf(PyObject* generator) {
  const Ref drawn = Ref::Steal(PyObject_CallMethod(generator, "random", nullptr));
  return drawn ? PyFloat_AsDouble(drawn) : -1;
}

// It draws the same again when its memory is put back, also where new words were made meanwhile.
bool DrawsAgain(PyObject* generator, Twister* twister) {
  Twister kept;
  std::memcpy(&kept, twister, sizeof kept);
  const double first = NextOf(generator);
  for (std::size_t i = 0; i < kWords; ++i) NextOf(generator);
  std::memcpy(&twister->index, &kept.index, kRandomMemorySize);
  return IsStateOf(kept, generator) && first >= 0 && NextOf(generator) == first;
}

PyTypeObject* TryLayout() {
  const Ref module = ImportModule("_random");
  const Ref type = module ? Ref::Steal(PyObject_GetAttrString(module, "Random")) : Ref();
  const Ref trial = type ? Ref::Steal(PyObject_CallFunction(type, "i", 12345)) : Ref();
  bool fits = trial && Py_TYPE(trial.get())->tp_basicsize >= static_cast<Py_ssize_t>(sizeof(Twister));
  if (fits) NextOf(trial);
  auto* twister = reinterpret_cast<Twister*>(trial.get());
  fits = fits && IsStateOf(*twister, trial) && DrawsAgain(trial, twister) && PyErr_Occurred() == nullptr;
  PyErr_Clear();
  return fits ? reinterpret_cast<PyTypeObject*>(Py_NewRef(type.get())) : nullptr;
}

}  // namespace

char* RandomMemoryOf(PyObject* generator) {
  static PyTypeObject* const type = TryLayout();
  if (type == nullptr || !PyObject_TypeCheck(generator, type)) return nullptr;
  return reinterpret_cast<char*>(&reinterpret_cast<Twister*>(generator)->index);
}

}  // namespace framefuse::frame_ops
