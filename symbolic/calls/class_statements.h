// ClassStatements: how an attempt makes classes. The body of a class statement is evaluated like any other frame;
// CPython's own __build_class__ runs, and metaclasses that do no more than make the class (known_metaclass.h).
// Invariant: a class is in MadeClasses before any code of the program's sees it.
#ifndef FRAMEFUSE_SYMBOLIC_CALLS_CLASS_STATEMENTS_H_
#define FRAMEFUSE_SYMBOLIC_CALLS_CLASS_STATEMENTS_H_

#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "frame_eval/ref.h"
#include "symbolic/evaluator/activation.h"
#include "symbolic/evaluator/value.h"

namespace framefuse {

class BreakController;
class FrameEntry;
class Journals;
class MadeClasses;
class NativeArguments;
class NativeBoundary;
class ObjectTable;
class Protocols;
class ReadJournal;
class WriteJournal;

class ClassStatements {
 public:
  ClassStatements(Journals& journals, Protocols& meaning, FrameEntry& entry);

  // A call of __build_class__.
  Value Build(Activation& act, ValueView build_class, absl::Span<const ValueView> args, BorrowedRef kwnames);
  // type(name, bases, namespace).
  Value BuildByType(Activation& act, ValueView type, absl::Span<const ValueView> args);
  // type.__new__, as a metaclass of the program's calls it once for the statement under way. Nothing: any other call.
  std::optional<Value> NewByType(Activation& act, ValueView make, absl::Span<const ValueView> args,
                                 BorrowedRef kwnames);
  // Library code that makes a class and does nothing else.
  Value Make(ValueView function, absl::Span<const ValueView> args, BorrowedRef kwnames);
  // Library code that adds to a class made here, and may make another one of it.
  Value Process(ValueView function, absl::Span<const ValueView> args, BorrowedRef kwnames);
  // STORE_NAME of a body.
  [[nodiscard]] bool StoreName(Activation& act, BorrowedRef name, ValueView value);
  // An attribute of a class made here is set, or deleted.
  [[nodiscard]] bool SetAttr(ValueView cls, BorrowedRef name, ValueView value_or_null);
  // Code that is compiled in the frame: that of a body under construction is the program's own.
  void NoteCode(Activation& act, BorrowedRef code);

 private:
  struct Statement {
    BorrowedRef body;  // the function
    Ref first_name;    // see FirstName
    bool abstract = false;
    bool begun = false;
    bool rebuildable = true;
    bool by_program = false;  // its metaclass is the program's: hooks of it are captured
    bool sees_names = false;  // a hook of it gets the namespace before the class is there
    bool made = false;        // by_program: type.__new__ was called, or is not the program's to call
  };

  bool MayBuild(absl::Span<const ValueView> args, BorrowedRef kwnames, Statement* statement);
  Value MakeOf(Activation& act, Statement statement, ValueView make, absl::Span<const ValueView> args,
               BorrowedRef kwnames);
  bool MayBuildFrom(PyTypeObject* metaclass, absl::Span<PyObject* const> bases, Statement* statement);
  Ref CallLibrary(BorrowedRef callable, absl::Span<PyObject* const> args, std::size_t positional, BorrowedRef kwnames);
  Value Run(Statement statement, BorrowedRef callable, absl::Span<PyObject* const> args, std::size_t positional,
            BorrowedRef kwnames);
  [[nodiscard]] bool ReadMetaclass(PyTypeObject* metaclass, Statement* statement);
  [[nodiscard]] bool ReadBase(BorrowedRef base, Statement* statement);
  [[nodiscard]] bool ReadMember(Activation& act, ValueView value, bool abstract);

  BreakController& breaks_;
  NativeBoundary& boundary_;
  ReadJournal& reads_;
  ObjectTable& objects_;
  WriteJournal& writes_;
  NativeArguments& arguments_;
  MadeClasses& made_;
  Protocols& meaning_;
  FrameEntry& entry_;
  std::vector<Statement> open_;
};

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_CALLS_CLASS_STATEMENTS_H_
