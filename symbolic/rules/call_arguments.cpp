#include "symbolic/rules/call_arguments.h"

#include "guards/read.h"
#include "symbolic/rules/leaf_types.h"
#include "symbolic/rules/tensor_types.h"

namespace framefuse {

ValueVector WithFirst(ValueView first, absl::Span<const ValueView> args) {
  ValueVector all;
  all.push_back(first);
  all.insert(all.end(), args.begin(), args.end());
  return all;
}

PyObject* Vectorcall(BorrowedRef callable, absl::Span<const ValueView> args, BorrowedRef kwnames) {
  absl::InlinedVector<PyObject*, 9> objects;
  objects.push_back(nullptr);  // room for PY_VECTORCALL_ARGUMENTS_OFFSET
  for (const ValueView& v : args) objects.push_back(v.object);
  return PyObject_Vectorcall(callable, objects.data() + 1,
                             PositionalCount(args, kwnames) | PY_VECTORCALL_ARGUMENTS_OFFSET, kwnames);
}

bool IsPlainArgument(BorrowedRef o) {
  if (IsLeaf(o) || IsTensor(o) || PyType_Check(o.get())) return true;
  if (PyTuple_Check(o.get()) || PyList_CheckExact(o.get())) {
    Ref items = Ref::Steal(PySequence_Fast(o, ""));
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items.get()); ++i) {
      if (!IsPlainArgument(PySequence_Fast_GET_ITEM(items.get(), i))) return false;
    }
    return true;
  }
  return PySlice_Check(o.get()) || PyRange_Check(o.get()) || PyCFunction_Check(o.get());
}

}  // namespace framefuse
