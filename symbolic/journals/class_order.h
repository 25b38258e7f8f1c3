// The order of classes in which names are looked up, and the bases that it follows from: a program may give a class
// other ones (__bases__). Whatever follows from them beside a look-up is guarded here: isinstance(), except, super().
#ifndef FRAMEFUSE_SYMBOLIC_JOURNALS_CLASS_ORDER_H_
#define FRAMEFUSE_SYMBOLIC_JOURNALS_CLASS_ORDER_H_

#include <Python.h>

namespace framefuse {

class ReadJournal;

void GuardClassOrder(ReadJournal& reads, PyTypeObject* type);
void GuardBases(ReadJournal& reads, PyTypeObject* type);

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_JOURNALS_CLASS_ORDER_H_
