#include "symbolic/rules/numpy_random_memory.h"

#include <cstdint>
#include <cstring>
#include <optional>

namespace framefuse {
namespace {

constexpr std::size_t kPlace = NumpyRandomMemory::kTwisterSize - sizeof(std::int32_t);  // behind the words

struct Layout {
  PyTypeObject* bits = nullptr;
  std::size_t store =
      0;  // in a RandomState: an int that tells whether there is a number, and eight bytes on the number
};

// The capsule is numpy's own interface (numpy/random/bitgen.h): it begins with the state's address.
char* TwisterOf(BorrowedRef bits) {
  static PyObject* const name = PyUnicode_InternFromString("capsule");
  const Ref capsule = Ref::Steal(PyObject_GetAttr(bits, name));
  void* interface = capsule ? PyCapsule_GetPointer(capsule, "BitGenerator") : nullptr;
  return interface != nullptr ? *static_cast<char**>(interface) : nullptr;
}

Ref BitsOf(BorrowedRef generator) {
  static PyObject* const name = PyUnicode_InternFromString("_bit_generator");
  return Ref::Steal(PyObject_GetAttr(generator, name));
}

double NormalOf(BorrowedRef generator) {
  const Ref drawn = Ref::Steal(PyObject_CallMethod(generator, "standard_normal", nullptr));
  return drawn ? PyFloat_AsDouble(drawn) : 0;
}

Ref StateOf(BorrowedRef generator) { return Ref::Steal(PyObject_CallMethod(generator, "get_state", "O", Py_False)); }

bool IsWordsOf(const char* twister, BorrowedRef generator) {
  const Ref state = StateOf(generator);
  PyObject* inner = state ? PyDict_GetItemString(state, "state") : nullptr;
  PyObject* key = inner != nullptr ? PyDict_GetItemString(inner, "key") : nullptr;
  PyObject* pos = key != nullptr ? PyDict_GetItemString(inner, "pos") : nullptr;
  Py_buffer words;
  if (pos == nullptr || PyObject_GetBuffer(key, &words, PyBUF_SIMPLE) < 0) return false;
  std::int32_t place = 0;
  std::memcpy(&place, twister + kPlace, sizeof place);
  const bool same = static_cast<std::size_t>(words.len) == kPlace && std::memcmp(words.buf, twister, kPlace) == 0 &&
                    PyLong_AsLong(pos) == place;
  PyBuffer_Release(&words);
  return same;
}

// Where the number is that get_state() calls "gauss", in just one place.
std::optional<std::size_t> FindStore(BorrowedRef generator) {
  const Ref state = StateOf(generator);
  PyObject* known = state ? PyDict_GetItemString(state, "gauss") : nullptr;
  if (known == nullptr || !PyFloat_CheckExact(known)) return std::nullopt;
  const double value = PyFloat_AS_DOUBLE(known);
  if (value == 0) return std::nullopt;
  const char* memory = reinterpret_cast<const char*>(generator.get());
  const auto size = static_cast<std::size_t>(generator.type()->tp_basicsize);
  std::optional<std::size_t> found;
  for (std::size_t at = sizeof(PyObject) + sizeof(double); at + sizeof(double) <= size; at += sizeof(double)) {
    if (std::memcmp(memory + at, &value, sizeof value) != 0) continue;
    if (found) return std::nullopt;
    found = at - sizeof(double);
  }
  std::int32_t has = 0;
  if (found) std::memcpy(&has, memory + *found, sizeof has);
  return has == 1 ? found : std::nullopt;
}

// It draws the same again when its memory is put back, also where new words were made meanwhile.
bool DrawsAgain(BorrowedRef generator, char* twister, char* store) {
  char words[NumpyRandomMemory::kTwisterSize], number[NumpyRandomMemory::kStoreSize];
  std::memcpy(words, twister, sizeof words);
  std::memcpy(number, store, sizeof number);
  const double first = NormalOf(generator), second = NormalOf(generator);
  for (int i = 0; i < 1001; ++i) NormalOf(generator);
  std::memcpy(twister, words, sizeof words);
  std::memcpy(store, number, sizeof number);
  return IsWordsOf(words, generator) && NormalOf(generator) == first && NormalOf(generator) == second;
}

Layout TryLayout(PyTypeObject* type) {
  const Ref trial = Ref::Steal(PyObject_CallFunction(reinterpret_cast<PyObject*>(type), "i", 12345));
  if (trial) NormalOf(trial);
  const Ref bits = trial ? BitsOf(trial) : Ref();
  char* twister = bits && std::strstr(bits.type()->tp_name, "MT19937") != nullptr ? TwisterOf(bits) : nullptr;
  const std::optional<std::size_t> store = twister != nullptr ? FindStore(trial) : std::nullopt;
  const bool fits = store && IsWordsOf(twister, trial) &&
                    DrawsAgain(trial, twister, reinterpret_cast<char*>(trial.get()) + *store) &&
                    LockBits(bits, false) && UnlockBits(bits) && PyErr_Occurred() == nullptr;
  PyErr_Clear();
  if (!fits) return {};
  return {reinterpret_cast<PyTypeObject*>(Py_NewRef(bits.type())), *store};
}

}  // namespace

NumpyRandomMemory NumpyRandomMemoryOf(BorrowedRef generator) {
  static const Layout layout = TryLayout(generator.type());
  if (layout.bits == nullptr) return {};
  Ref bits = BitsOf(generator);
  char* twister = bits && bits.type() == layout.bits ? TwisterOf(bits) : nullptr;
  PyErr_Clear();
  if (twister == nullptr) return {};
  return {twister, reinterpret_cast<char*>(generator.get()) + layout.store, std::move(bits)};
}

bool LockBits(BorrowedRef bits, bool waits) {
  static PyObject* const name = PyUnicode_InternFromString("lock");
  static PyObject* const acquire = PyUnicode_InternFromString("acquire");
  const Ref lock = Ref::Steal(PyObject_GetAttr(bits, name));
  const Ref taken = lock ? Ref::Steal(PyObject_CallMethodOneArg(lock, acquire, waits ? Py_True : Py_False)) : Ref();
  return taken.get() == Py_True;
}

bool UnlockBits(BorrowedRef bits) {
  static PyObject* const name = PyUnicode_InternFromString("lock");
  static PyObject* const release = PyUnicode_InternFromString("release");
  const Ref lock = Ref::Steal(PyObject_GetAttr(bits, name));
  const Ref released = lock ? Ref::Steal(PyObject_CallMethodNoArgs(lock, release)) : Ref();
  return static_cast<bool>(released);
}

}  // namespace framefuse
