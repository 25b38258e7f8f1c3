#include "symbolic/journals/made_in_backward.h"

#include "symbolic/journals/fakes.h"

namespace framefuse {
namespace {
thread_local MadeInBackward* open = nullptr;  // of the attempt that runs on this thread
}  // namespace

MadeInBackward::MadeInBackward() : outer_(open) { open = this; }
MadeInBackward::~MadeInBackward() { open = outer_; }

void MadeInBackward::Note(BorrowedRef object) {
  if (open == nullptr || !object || IsFakeTensor(object)) return;
  PyTypeObject* type = object.type();
  const bool container = PyList_Check(object.get()) || PyDict_Check(object.get()) || PyAnySet_Check(object.get());
  const bool instance = (type->tp_flags & Py_TPFLAGS_HEAPTYPE) != 0 && !PyType_Check(object.get());
  if (container || instance) open->made_.try_emplace(object.get(), Ref::Create(object));
}

bool MadeInBackward::Has(BorrowedRef object) { return open != nullptr && object && open->made_.contains(object.get()); }

}  // namespace framefuse
