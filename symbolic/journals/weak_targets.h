// What weak references and proxies refer to.
#ifndef FRAMEFUSE_SYMBOLIC_JOURNALS_WEAK_TARGETS_H_
#define FRAMEFUSE_SYMBOLIC_JOURNALS_WEAK_TARGETS_H_

#include "symbolic/evaluator/value.h"
#include "symbolic/journals/tracked.h"

namespace framefuse {

class BreakController;
class FrameStack;
class Journals;
class ObjectTable;
class ReadJournal;
class WriteJournal;

// Reads the target of one that is tracked, or was made here. Keeps no state.
class WeakTargets {
 public:
  WeakTargets(const FrameStack& frames, BreakController& breaks, ReadJournal& reads, const WriteJournal& writes,
              ObjectTable& objects)
      : frames_(frames), breaks_(breaks), reads_(reads), writes_(writes), objects_(objects) {}
  explicit WeakTargets(Journals& journals);

  // None: it has ended. Null: broke.
  Value Of(ValueView reference);
  // A proxy from outside: what is done with it is done with the object behind it.
  bool IsProxy(ValueView v) const;
  Value BehindProxy(ValueView proxy);  // null: broke

 private:
  const FrameStack& frames_;
  BreakController& breaks_;
  ReadJournal& reads_;
  const WriteJournal& writes_;
  ObjectTable& objects_;
};

// Of what the frame makes: one may be made of it, without a callback.
bool MayBeReferredTo(PyTypeObject* type);
PyTypeObject* WeakrefType();
// A weak reference, of a class derived from that perhaps, which a call asks for its target.
bool IsAskedByCall(BorrowedRef reference, BorrowedRef call_of_its_class);

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_JOURNALS_WEAK_TARGETS_H_
