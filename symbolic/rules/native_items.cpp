#include "symbolic/rules/native_items.h"

#include <structmember.h>

#include "frame_eval/versions/private_api.h"
#include "symbolic/rules/builtin_types.h"

namespace framefuse {

Ref NativeItems(BorrowedRef sequence) {
  if (PyList_Check(sequence.get())) {
    return Ref::Steal(PyList_GetSlice(sequence, 0, PyList_GET_SIZE(sequence.get())));
  }
  const Ref iterator = Ref::Steal(NativeBase(sequence.type())->tp_iter(sequence));
  return iterator ? Ref::Steal(PySequence_List(iterator)) : Ref();
}

Ref NativePairs(BorrowedRef dict) {
  // PyDict_Items walks an OrderedDict in insertion order of the table, not in its own order.
  if (!PyODict_Check(dict.get())) return Ref::Steal(PyDict_Items(dict));
  const Ref view = CallMethodWith(reinterpret_cast<PyObject*>(&PyODict_Type), "items", dict);
  return view ? Ref::Steal(PySequence_List(view)) : Ref();
}

BorrowedRef RawFactoryOf(BorrowedRef defaultdict) {
  const PyMemberDef* member = reinterpret_cast<PyMemberDescrObject*>(FactorySlot())->d_member;
  return *reinterpret_cast<PyObject**>(reinterpret_cast<char*>(defaultdict.get()) + member->offset);
}

bool SetNativeItem(BorrowedRef dict, BorrowedRef key, BorrowedRef value) {
  const bool ordered = PyODict_Check(dict.get());
  if (!value) return (ordered ? PyODict_DelItem(dict, key) : PyDict_DelItem(dict, key)) == 0;
  return (ordered ? PyODict_SetItem(dict, key, value) : PyDict_SetItem(dict, key, value)) == 0;
}

Ref PlainCopy(BorrowedRef original) {
  if (PySet_Check(original.get())) {
    const Ref items = NativeItems(original);
    const Ref elements = items ? Ref::Steal(PyList_AsTuple(items)) : Ref();
    const Ref same = elements ? private_api::CopySetLayout(original.get(), elements) : Ref();
    Ref copy = same ? Ref::Steal(PySet_New(nullptr)) : Ref();
    if (copy) private_api::SwapSets(copy.get(), same.get());
    return copy;
  }
  if (!PyDict_Check(original.get())) return NativeItems(original);
  // PyDict_Copy asks a class with an __iter__ of its own for keys().
  const Ref pairs = NativePairs(original);
  Ref copy = pairs ? Ref::Steal(PyODict_Check(original.get()) ? PyODict_New() : PyDict_New()) : Ref();
  for (Py_ssize_t i = 0; copy && i < PyList_GET_SIZE(pairs.get()); ++i) {
    PyObject* pair = PyList_GET_ITEM(pairs.get(), i);
    if (!SetNativeItem(copy, PyTuple_GET_ITEM(pair, 0), PyTuple_GET_ITEM(pair, 1))) return Ref();
  }
  return copy;
}

Ref EmptyOfClass(PyTypeObject* type) {
  const Ref nothing = Ref::Steal(PyTuple_New(0));
  return nothing ? Ref::Steal(NativeBase(type)->tp_new(type, nothing, nullptr)) : Ref();
}

}  // namespace framefuse
