#include "symbolic/journals/class_numbers.h"

#include "frame_eval/versions/frame_ops.h"
#include "symbolic/journals/read_journal.h"
#include "symbolic/rules/builtin_types.h"

namespace framefuse {

BorrowedRef FindInClass(ReadJournal& reads, PyTypeObject* type, BorrowedRef name) {
  PyObject* found = IsPythonClass(type) ? frame_ops::TypeLookup(type, name) : nullptr;
  if (found == nullptr || !(PyLong_CheckExact(found) || PyFloat_CheckExact(found))) {
    return reads.LookupInType(type, name);
  }
  const SourceId cls = reads.ConstantSource(reinterpret_cast<PyObject*>(type));
  reads.AddGuard(reads.sources().Intern(SourceKind::kTypeAttr, cls, 0, name), GuardKind::kTypeIs,
                 reinterpret_cast<PyObject*>(Py_TYPE(found)));
  return found;
}

}  // namespace framefuse
