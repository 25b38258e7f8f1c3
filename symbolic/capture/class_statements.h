// ClassStatements: the classes that an attempt makes. The body of a class statement is evaluated like any other frame;
// CPython's own __build_class__ runs, and metaclasses that do no more than make the class (known_metaclass.h).
// Such a class is known before any code of the program's sees it. It has no source and no guard names it: what is
// looked up in it is its own, made in this attempt, or a base's, and guarded there.
// Invariant: a class that was made ends with the attempt, with all that it holds. Owned by the Capture.
#ifndef FRAMEFUSE_SYMBOLIC_CAPTURE_CLASS_STATEMENTS_H_
#define FRAMEFUSE_SYMBOLIC_CAPTURE_CLASS_STATEMENTS_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/types/span.h"
#include "frame_eval/ref.h"
#include "guards/source.h"
#include "symbolic/evaluator/activation.h"
#include "symbolic/evaluator/value.h"

namespace framefuse {

class Capture;

class ClassStatements {
 public:
  explicit ClassStatements(Capture& capture) : capture_(capture) {}
  ~ClassStatements();
  ClassStatements(const ClassStatements&) = delete;
  ClassStatements& operator=(const ClassStatements&) = delete;

  bool empty() const { return made_.empty(); }
  bool IsMade(BorrowedRef object) const { return !made_.empty() && made_.contains(object.get()); }
  bool IsMade(PyTypeObject* type) const { return IsMade(reinterpret_cast<PyObject*>(type)); }
  // The class, or its nearest base that existed before.
  BorrowedRef NearestKnown(BorrowedRef type) const;

  // A call of __build_class__.
  Value Build(Activation& act, ValueView build_class, absl::Span<const ValueView> args, BorrowedRef kwnames);
  // type(name, bases, namespace).
  Value BuildByType(Activation& act, ValueView type, absl::Span<const ValueView> args);
  // Library code that makes a class and does nothing else.
  Value Make(ValueView function, absl::Span<const ValueView> args, BorrowedRef kwnames);
  // Library code that adds to a class made here, and may make another one of it.
  Value Process(ValueView function, absl::Span<const ValueView> args, BorrowedRef kwnames);
  // STORE_NAME of a body.
  bool StoreName(Activation& act, BorrowedRef name, ValueView value);
  // An attribute of a class made here is set, or deleted.
  bool SetAttr(ValueView cls, BorrowedRef name, ValueView value_or_null);
  // What a class made here has under the name, with the guards on its bases.
  BorrowedRef Lookup(PyTypeObject* type, BorrowedRef name);
  // The source as a later call has it: without the classes made here. Null: what is there is of this attempt.
  std::optional<SourceId> Rebase(SourceId source) const;

  // Code that the library compiles for a class is new in each attempt: no place to stop at.
  void NoteCode(Activation& act, BorrowedRef code);
  bool IsMadeCode(PyCodeObject* code) const { return code_.contains(reinterpret_cast<PyObject*>(code)); }
  // Nothing but its metaclass ran to make it, and its parts are those that a namespace gives.
  bool IsRebuildable(BorrowedRef cls) const { return IsMade(cls) && !closed_.contains(cls.get()); }
  // Of this attempt, as part of such a class.
  bool IsPart(BorrowedRef object) const { return contents_.contains(object.get()); }

  // Breaks the cycles of all classes. The attempt is over: nothing else refers to them.
  void TakeApart();
  // Classes that something kept alive past their attempt.
  static std::int64_t Leaked();

 private:
  friend struct FirstName;
  struct Statement {
    BorrowedRef body;  // the function
    Ref first_name;    // see FirstName
    bool abstract = false;
    bool begun = false;
    bool rebuildable = true;
  };

  bool MayBuild(absl::Span<const ValueView> args, BorrowedRef kwnames, Statement* statement);
  bool MayBuildFrom(PyTypeObject* metaclass, absl::Span<PyObject* const> bases, Statement* statement);
  Ref CallLibrary(BorrowedRef callable, absl::Span<PyObject* const> args, std::size_t positional, BorrowedRef kwnames);
  Value Run(Statement statement, BorrowedRef callable, absl::Span<PyObject* const> args, std::size_t positional,
            BorrowedRef kwnames);
  bool ReadBase(BorrowedRef base, Statement* statement);
  bool ReadMember(Activation& act, ValueView value, bool abstract);
  void NoteClass(BorrowedRef cls);
  void NoteContents(BorrowedRef cls);
  void NoteValue(BorrowedRef value);
  bool IsOfThisAttempt(BorrowedRef object) const;
  // The class of the MRO that has the name itself.
  static BorrowedRef Definer(PyTypeObject* type, BorrowedRef name);

  Capture& capture_;
  std::vector<Ref> classes_;               // in order of making
  std::vector<Ref> values_;                // held, so that no address comes to mean another object
  std::vector<Ref> weak_;                  // references to the classes
  absl::flat_hash_set<PyObject*> closed_;  // classes that cannot be rebuilt
  absl::flat_hash_set<PyObject*> made_;
  absl::flat_hash_set<PyObject*> code_;  // held by values_
  absl::flat_hash_set<PyObject*> contents_;
  std::vector<Statement> open_;
};

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_CAPTURE_CLASS_STATEMENTS_H_
