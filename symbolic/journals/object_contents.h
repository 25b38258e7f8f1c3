// ObjectContents: what stands in tracked objects: the items of containers and the attributes of instances. It is read
// one by one as far as that goes; Realise fills a container's shadow where something looks at it as a whole.
// Invariant: what is read has a guard, also that something is absent. Keeps no state: it stands in the Tracked.
#ifndef FRAMEFUSE_SYMBOLIC_JOURNALS_OBJECT_CONTENTS_H_
#define FRAMEFUSE_SYMBOLIC_JOURNALS_OBJECT_CONTENTS_H_

#include <cstdint>
#include <optional>

#include "symbolic/evaluator/value.h"
#include "symbolic/journals/tracked.h"

namespace framefuse {

class BreakController;
class ObjectTable;
class ReadJournal;
class Symbols;
class WriteJournal;

class ObjectContents {
 public:
  ObjectContents(BreakController& breaks, ReadJournal& reads, WriteJournal& writes, ObjectTable& objects,
                 Symbols& symbols)
      : breaks_(breaks), reads_(reads), writes_(writes), objects_(objects), symbols_(symbols) {}

  // Fills the shadow with representatives and guards what C code could see of it: length, keys, items. Of the __dict__
  // of an object, too.
  void Realise(Tracked& t, bool consume_leaves);
  // The container that a display or comprehension under construction adds to: after a break it existed before.
  bool PrepareTarget(BorrowedRef container);  // false: broke

  // ---- reads; a null Value without an error: absent
  // The container's items are read by this method of C code: its class has none of its own.
  bool HasNative(const Tracked& t, const char* method);
  // A symbolic number; null: the length is one that Length() gives.
  Ref SymbolicLength(const Tracked& t) const;
  std::int64_t Length(Tracked& t);  // -1: not a sized container, and no __dict__ of an object
  // Without a look at the other items: an index into a list or tuple from outside, a key of a dict. Nothing: not so.
  std::optional<Value> OneItem(Tracked& t, ValueView key);
  Value DictItem(Tracked& t, ValueView key);  // of a dict, or of the __dict__ of an object
  Value ItemOfTensor(Tracked& t, BorrowedRef key);
  Value InCell(Tracked& cell);                            // null without an error: it is empty
  Value OwnAttribute(Tracked& object, BorrowedRef name);  // not its type's
  Tracked* ThreadDictOf(const Tracked& local);            // IsThreadLocal(); null: broke

  // Of a dict, or of the __dict__ of an object. False: broke, or an error is set.
  bool WriteDictItem(Tracked& t, ValueView key, ValueView value_or_null);

 private:
  void RealiseItems(Tracked& t);
  void RealiseSequence(Tracked& t);
  void RealiseDict(Tracked& t);
  void RealiseSet(Tracked& t);
  void RealiseTuple(Tracked& t);
  void RealiseInstanceDict(Tracked& t);
  Py_ssize_t GuardOwnNames(const Tracked& instance);  // how many there are; -1: broke
  bool IsPlainDict(const Tracked& t);
  bool GuardKeys(const Tracked& t, BorrowedRef items);
  Value AdoptItem(const Tracked& t, BorrowedRef item, BorrowedRef key);

  BreakController& breaks_;
  ReadJournal& reads_;
  WriteJournal& writes_;
  ObjectTable& objects_;
  Symbols& symbols_;
};

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_JOURNALS_OBJECT_CONTENTS_H_
