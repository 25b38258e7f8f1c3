// NameAccess: how names are read and written: locals on their first load, globals, builtins, cells, and the mapping of
// a class's body. Writes to globals and cells that existed before go to the journal. Invariant: a global that was read
// once is read again without its guards, until the program writes one.
#ifndef FRAMEFUSE_SYMBOLIC_PROTOCOLS_NAME_ACCESS_H_
#define FRAMEFUSE_SYMBOLIC_PROTOCOLS_NAME_ACCESS_H_

#include <utility>
#include "absl/container/flat_hash_map.h"
#include "symbolic/evaluator/protocols.h"

namespace framefuse {

class BreakController;
class ClassStatements;
class FrameStack;
class Journals;
class NativeProtocols;
class ObjectContents;
class ObjectTable;
class ReadJournal;
class WriteJournal;

class NameAccess {
 public:
  NameAccess(Journals& journals, NativeProtocols& native, ClassStatements& class_statements);

  Value AdoptSlot(Activation& act, int slot);
  void SeeWhetherBound(Activation& act, int slot);
  Value LoadGlobal(Activation& act, BorrowedRef name);
  [[nodiscard]] bool StoreGlobal(Activation& act, BorrowedRef name, ValueView value);
  [[nodiscard]] bool DeleteGlobal(Activation&, BorrowedRef name);
  Value LoadName(Activation& act, BorrowedRef name);
  [[nodiscard]] bool StoreName(Activation& act, BorrowedRef name, ValueView value);
  [[nodiscard]] bool DeleteName(Activation& act, BorrowedRef name);
  Value MakeCell(Activation& act, int slot, ValueView initial);
  Value LoadDeref(Activation& act, int slot);
  [[nodiscard]] bool StoreDeref(Activation& act, int slot, ValueView value);
  [[nodiscard]] bool DeleteDeref(Activation& act, int slot);
  Value LoadClassDeref(Activation& act, int slot);
  Value LoadFromDictOrDeref(Activation& act, ValueView mapping, int slot);
  Value LoadFromDictOrGlobals(Activation& act, ValueView mapping, BorrowedRef name);
  Value LoadBuildClass(Activation& act);
  Value LoadLocals(Activation& act);
  [[nodiscard]] bool SetupAnnotations(Activation& act);
  void ClearReads() { global_reads_.clear(); }

 private:
  // A global, by what it was at the first read.
  struct GlobalRead {
    BorrowedRef object;
    SourceId source = kNoSource;
    Ref leaf;
  };

  BorrowedRef GlobalsOf(Activation& act);
  SourceId GlobalsSource(Activation& act);
  SourceId BuiltinsSource(Activation& act);
  Value ReadGlobal(Activation& act, BorrowedRef name);

  FrameStack& frames_;
  BreakController& breaks_;
  ReadJournal& reads_;
  ObjectTable& objects_;
  WriteJournal& writes_;
  ObjectContents& contents_;
  NativeProtocols& native_;
  ClassStatements& class_statements_;
  absl::flat_hash_map<std::pair<PyObject*, PyObject*>, GlobalRead> global_reads_;  // by globals dict and name
};

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_PROTOCOLS_NAME_ACCESS_H_
