#include "symbolic/rules/generator_state.h"

#include <cstring>

#include "frame_eval/versions/random_memory.h"
#include "symbolic/rules/numpy_random_memory.h"
#include "symbolic/rules/random_methods.h"

namespace framefuse {
namespace {

PyObject* GaussName() {
  static PyObject* const name = PyUnicode_InternFromString("gauss_next");
  return name;
}

bool Succeeds(const Ref& result) { return static_cast<bool>(result); }

Ref WholeStateOf(BorrowedRef generator) {
  switch (KindOfGenerator(generator.type())) {
    case GeneratorKind::kPython:
      return Ref::Steal(PyObject_CallMethod(generator, "getstate", nullptr));
    case GeneratorKind::kNumpyState:
      return Ref::Steal(PyObject_CallMethod(generator, "get_state", "O", Py_False));
    case GeneratorKind::kNumpy: {
      const Ref bits = Ref::Steal(PyObject_GetAttrString(generator, "bit_generator"));
      return bits ? Ref::Steal(PyObject_GetAttrString(bits, "state")) : Ref();
    }
    case GeneratorKind::kNone:
      break;
  }
  PyErr_SetString(PyExc_TypeError, "no generator of random numbers");
  return Ref();
}

bool SetWholeState(BorrowedRef generator, BorrowedRef state) {
  switch (KindOfGenerator(generator.type())) {
    case GeneratorKind::kPython:
      return Succeeds(Ref::Steal(PyObject_CallMethod(generator, "setstate", "(O)", state.get())));
    case GeneratorKind::kNumpyState:
      return Succeeds(Ref::Steal(PyObject_CallMethod(generator, "set_state", "(O)", state.get())));
    case GeneratorKind::kNumpy: {
      const Ref bits = Ref::Steal(PyObject_GetAttrString(generator, "bit_generator"));
      return bits && PyObject_SetAttrString(bits, "state", state) == 0;
    }
    case GeneratorKind::kNone:
      break;
  }
  PyErr_SetString(PyExc_TypeError, "no generator of random numbers");
  return false;
}

}  // namespace

bool GeneratorState::TakeWords() {
  const char* words = frame_ops::RandomMemoryOf(generator_);
  if (words == nullptr) return false;
  gauss_ = Ref::Steal(PyObject_GetAttr(generator_, GaussName()));
  if (!gauss_) {
    PyErr_Clear();
    return false;
  }
  words_ = std::make_unique_for_overwrite<char[]>(frame_ops::kRandomMemorySize);
  std::memcpy(words_.get(), words, frame_ops::kRandomMemorySize);
  return true;
}

bool GeneratorState::TakeNumpyWords() {
  using Memory = NumpyRandomMemory;
  const Memory memory = NumpyRandomMemoryOf(generator_);
  if (memory.twister == nullptr) return false;
  if (!LockBits(memory.bits, false)) {
    PyErr_Clear();
    return false;
  }
  words_ = std::make_unique_for_overwrite<char[]>(Memory::kTwisterSize + Memory::kStoreSize);
  std::memcpy(words_.get(), memory.twister, Memory::kTwisterSize);
  std::memcpy(words_.get() + Memory::kTwisterSize, memory.store, Memory::kStoreSize);
  if (!UnlockBits(memory.bits)) PyErr_WriteUnraisable(memory.bits);
  return true;
}

bool GeneratorState::Take(BorrowedRef generator) {
  generator_ = Ref::Create(generator);
  const GeneratorKind kind = KindOfGenerator(generator.type());
  if (kind == GeneratorKind::kPython && TakeWords()) return true;
  if (kind == GeneratorKind::kNumpyState && TakeNumpyWords()) return true;
  whole_ = WholeStateOf(generator);
  return static_cast<bool>(whole_);
}

bool GeneratorState::PutBack() const {
  if (whole_) return SetWholeState(generator_, whole_);
  if (gauss_) {
    std::memcpy(frame_ops::RandomMemoryOf(generator_), words_.get(), frame_ops::kRandomMemorySize);
    return PyObject_SetAttr(generator_, GaussName(), gauss_) == 0;
  }
  using Memory = NumpyRandomMemory;
  const Memory memory = NumpyRandomMemoryOf(generator_);
  if (memory.twister == nullptr) {
    PyErr_SetString(PyExc_RuntimeError, "a generator of numpy has another bit generator than before");
    return false;
  }
  if (!LockBits(memory.bits, true)) return false;
  std::memcpy(memory.twister, words_.get(), Memory::kTwisterSize);
  std::memcpy(memory.store, words_.get() + Memory::kTwisterSize, Memory::kStoreSize);
  return UnlockBits(memory.bits);
}

}  // namespace framefuse
