#include "symbolic/rules/moving_code.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "frame_eval/import_module.h"
#include "symbolic/rules/builtin_types.h"

namespace framefuse {
namespace {

// Of what lies in them they know nothing.
bool WalksContainer(PyTypeObject* type) {
  static const std::array kTypes = {&PyListIter_Type,      &PyTupleIter_Type,    &PyDictIterKey_Type,
                                    &PyDictIterValue_Type, &PyDictIterItem_Type, &PySetIter_Type,
                                    &PyRangeIter_Type,     &PySeqIter_Type,      &PyReversed_Type,
                                    &PyUnicodeIter_Type,   &PyListRevIter_Type};
  return std::find(kTypes.begin(), kTypes.end(), type) != kTypes.end();
}

enum class Wraps : std::uint8_t { kNo, kIterators, kFunction, kIterables };

struct ItertoolsTypes {
  ItertoolsTypes() {
    const Ref module = ImportModule("itertools");
    for (const char* name : {"islice", "cycle", "pairwise", "zip_longest", "product"}) {
      if (PyObject* type = module ? PyObject_GetAttrString(module, name) : nullptr) iterators.push_back(type);
    }
    chain = module ? PyObject_GetAttrString(module, "chain") : nullptr;
    PyErr_Clear();
  }
  std::vector<PyObject*> iterators;
  PyObject* chain = nullptr;
};

Wraps WrapsIterators(PyTypeObject* type) {
  static const auto* itertools = new ItertoolsTypes();
  if (type == &PyMap_Type) return Wraps::kFunction;
  if (type == &PyZip_Type || type == &PyEnum_Type) return Wraps::kIterators;
  auto* object = reinterpret_cast<PyObject*>(type);
  if (object == itertools->chain) return Wraps::kIterables;
  const auto& known = itertools->iterators;
  return std::find(known.begin(), known.end(), object) != known.end() ? Wraps::kIterators : Wraps::kNo;
}

std::vector<PyObject*> ReferentsOf(BorrowedRef object) {
  std::vector<PyObject*> referents;
  const auto add = [](PyObject* child, void* into) {
    static_cast<std::vector<PyObject*>*>(into)->push_back(child);
    return 0;
  };
  object.type()->tp_traverse(object, add, &referents);
  return referents;
}

bool IsIterator(PyObject* object) { return PyIter_Check(object) != 0; }

constexpr int kDeepest = 20;

bool Moves(BorrowedRef receiver, bool from_frames, int depth) {
  PyTypeObject* type = receiver.type();
  if (PyGen_CheckExact(receiver.get()) || WalksContainer(type)) return true;
  if (IsPythonClass(type)) return NativeBase(type) == &PyBaseObject_Type && IsIterator(receiver.get());
  const Wraps wraps = WrapsIterators(type);
  if (wraps == Wraps::kNo || depth == kDeepest) return false;
  const std::vector<PyObject*> parts = ReferentsOf(receiver);
  // What comes from the source of chain.from_iterable() is iterated by chain.
  const auto source = std::find_if(parts.begin(), parts.end(), IsIterator);
  if (wraps == Wraps::kIterables && source != parts.end()) {
    PyTypeObject* of = Py_TYPE(*source);
    if (of != &PyTupleIter_Type && !(from_frames && WalksContainer(of))) return false;
  }
  return std::all_of(parts.begin(), parts.end(), [&](PyObject* part) {
    if (IsIterator(part)) return Moves(part, from_frames, depth + 1);
    if (wraps == Wraps::kFunction && !PyTuple_CheckExact(part)) return PyFunction_Check(part) != 0;
    if (!PyTuple_CheckExact(part)) return true;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(part); ++i) {
      PyObject* item = PyTuple_GET_ITEM(part, i);  // null: zip_longest() gave up one that has ended
      if (item != nullptr && IsIterator(item) && !Moves(item, from_frames, depth + 1)) return false;
    }
    return true;
  });
}

}  // namespace

bool OnlyMoves(BorrowedRef receiver) { return PyFunction_Check(receiver.get()) || Moves(receiver, true, 0); }

bool MovesItems(BorrowedRef iterator) { return Moves(iterator, false, 0); }

BorrowedRef KeptItems(BorrowedRef callable, absl::Span<const ValueView> args) {
  const auto is = [&](PyTypeObject* type) { return callable.get() == reinterpret_cast<PyObject*>(type); };
  if (args.size() == 1 && (is(&PyList_Type) || is(&PyTuple_Type) || is(DequeType()))) return args[0].object;
  if (args.empty() || callable.type() != &PyMethodDescr_Type) return nullptr;
  auto* method = reinterpret_cast<PyDescrObject*>(callable.get());
  if (method->d_type == &PyGen_Type) return args[0].object;
  const bool extends = method->d_type == &PyList_Type && args.size() == 2 &&
                       PyUnicode_CompareWithASCIIString(method->d_name, "extend") == 0;
  return extends ? args[1].object : nullptr;
}

}  // namespace framefuse
