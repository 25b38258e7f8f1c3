// ObjectContents: what stands in tracked objects: the items of containers and the attributes of instances. It is read
// one by one as far as that goes; Realise fills a container's shadow where something looks at it as a whole.
// Invariant: what is read has a guard, also that something is absent. Keeps no state: it stands in the Tracked.
#ifndef FRAMEFUSE_SYMBOLIC_JOURNALS_OBJECT_CONTENTS_H_
#define FRAMEFUSE_SYMBOLIC_JOURNALS_OBJECT_CONTENTS_H_

#include <cstdint>
#include <optional>
#include <string_view>

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
  [[nodiscard]] bool Realise(Tracked& t, bool consume_leaves);
  // The container that a display or comprehension under construction adds to: after a break it existed before.
  [[nodiscard]] bool PrepareTarget(BorrowedRef container);

  // ---- reads; nothing: absent
  // The container's items are read by this method of C code: its class has none of its own.
  bool HasNative(const Tracked& t, const char* method);
  // A symbolic number; null: the length is one that Length() gives.
  Ref SymbolicLength(const Tracked& t) const;
  [[nodiscard]] std::int64_t Length(Tracked& t);  // -1: an error is set, or nothing that has a shadow
  // Without a look at the other items: an index into a list or tuple from outside, a key of a dict. Nothing: not so.
  std::optional<Value> OneItem(Tracked& t, ValueView key);
  std::optional<Value> DictItem(Tracked& t, ValueView key);  // of a dict, or of the __dict__ of an object
  std::optional<Value> ItemOfTensor(Tracked& t, BorrowedRef key);
  std::optional<Value> InCell(Tracked& cell);
  std::optional<Value> OwnAttribute(Tracked& object, BorrowedRef name);  // not its type's
  Tracked* ThreadDictOf(const Tracked& local);                           // IsThreadLocal(); null: an error is set

  // Of a dict, or of the __dict__ of an object.
  [[nodiscard]] bool WriteDictItem(Tracked& t, ValueView key, ValueView value_or_null);

 private:
  [[nodiscard]] bool RealiseItems(Tracked& t);
  [[nodiscard]] bool RealiseSequence(Tracked& t);
  [[nodiscard]] bool RealiseDict(Tracked& t);
  [[nodiscard]] bool RealiseSet(Tracked& t);
  [[nodiscard]] bool RealiseTuple(Tracked& t);
  [[nodiscard]] bool RealiseInstanceDict(Tracked& t);
  [[nodiscard]] Py_ssize_t GuardOwnNames(const Tracked& instance);  // how many there are; -1: an error is set
  [[nodiscard]] Py_ssize_t BreakLength(std::string_view context);   // -1
  bool IsPlainDict(const Tracked& t);
  [[nodiscard]] bool GuardKeys(const Tracked& t, BorrowedRef items);
  static std::optional<Value> Written(const OverlayWrite& w);
  Value AdoptItem(const Tracked& t, BorrowedRef item, BorrowedRef key);

  BreakController& breaks_;
  ReadJournal& reads_;
  WriteJournal& writes_;
  ObjectTable& objects_;
  Symbols& symbols_;
};

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_JOURNALS_OBJECT_CONTENTS_H_
