// MadeClasses: the classes that an attempt made (calls/class_statements.h), and what is part of them.
// Such a class has no source and no guard names it: what is looked up in it is its own, made in this attempt, or a
// base's, and guarded there.
// Invariant: a class that was made ends with the attempt, with all that it holds.
#ifndef FRAMEFUSE_SYMBOLIC_JOURNALS_MADE_CLASSES_H_
#define FRAMEFUSE_SYMBOLIC_JOURNALS_MADE_CLASSES_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "frame_eval/ref.h"
#include "guards/source.h"

namespace framefuse {

class ObjectTable;
class ReadJournal;

class MadeClasses {
 public:
  MadeClasses(ReadJournal& reads, const ObjectTable& objects) : reads_(reads), objects_(objects) {}
  ~MadeClasses();
  MadeClasses(const MadeClasses&) = delete;
  MadeClasses& operator=(const MadeClasses&) = delete;

  bool empty() const { return made_.empty(); }
  bool IsMade(BorrowedRef object) const { return !made_.empty() && made_.contains(object.get()); }
  bool IsMade(PyTypeObject* type) const { return IsMade(reinterpret_cast<PyObject*>(type)); }
  // The class, or its nearest base that existed before.
  BorrowedRef NearestKnown(BorrowedRef type) const;
  // What a class made here has under the name, with the guards on its bases.
  BorrowedRef Lookup(PyTypeObject* type, BorrowedRef name);
  // The source as a later call has it: without the classes made here. Null: what is there is of this attempt.
  std::optional<SourceId> Rebase(SourceId source) const;

  void NoteClass(BorrowedRef cls);     // and what stands in it
  void NoteContents(BorrowedRef cls);  // which code of the library's has changed
  void NoteValue(BorrowedRef value);
  // Code that the library compiles for a class is new in each attempt: no place to stop at.
  void NoteCode(BorrowedRef code);
  bool IsMadeCode(PyCodeObject* code) const { return code_.contains(reinterpret_cast<PyObject*>(code)); }
  // More than its metaclass ran to make it, or it has parts that no namespace gives.
  void Close(BorrowedRef cls) { closed_.insert(cls.get()); }
  bool IsRebuildable(BorrowedRef cls) const { return IsMade(cls) && !closed_.contains(cls.get()); }
  // Of this attempt, as part of such a class.
  bool IsPart(BorrowedRef object) const { return contents_.contains(object.get()); }
  // A name of no program's, which stands in a namespace while the class is made.
  static PyObject* FirstKey();

  // Breaks the cycles of all classes. The attempt is over: nothing else refers to them.
  void TakeApart();
  // Classes that something kept alive past their attempt.
  static std::int64_t Leaked();

 private:
  bool IsOfThisAttempt(BorrowedRef object) const;
  // The class of the MRO that has the name itself.
  static BorrowedRef Definer(PyTypeObject* type, BorrowedRef name);

  ReadJournal& reads_;
  const ObjectTable& objects_;
  std::vector<Ref> classes_;               // in order of making
  std::vector<Ref> values_;                // held, so that no address comes to mean another object
  std::vector<Ref> weak_;                  // references to the classes
  absl::flat_hash_set<PyObject*> closed_;  // classes that cannot be rebuilt
  absl::flat_hash_set<PyObject*> made_;
  absl::flat_hash_set<PyObject*> code_;  // held by values_
  absl::flat_hash_set<PyObject*> contents_;
};

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_JOURNALS_MADE_CLASSES_H_
