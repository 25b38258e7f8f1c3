// Building: displays, comprehensions and functions: what the program makes anew.
// Invariant: what goes into a new object is consumed (soundness rule 7): it goes on without its source.
#ifndef FRAMEFUSE_SYMBOLIC_PROTOCOLS_BUILDING_H_
#define FRAMEFUSE_SYMBOLIC_PROTOCOLS_BUILDING_H_

#include "symbolic/evaluator/protocols.h"

namespace framefuse {

class BreakController;
class ClassStatements;
class Iteration;
class Journals;
class NativeArguments;
class NativeBoundary;
class NativeProtocols;
class ObjectContents;
class ObjectTable;
class ReadJournal;
class WriteJournal;

class Building {
 public:
  Building(Journals& journals, NativeProtocols& native, ClassStatements& class_statements, Iteration& iteration);

  Value BuildTuple(Activation& act, absl::Span<const ValueView> items);
  Value BuildList(Activation& act, absl::Span<const ValueView> items);
  Value BuildSet(Activation& act, absl::Span<const ValueView> items);
  Value BuildMap(Activation& act, absl::Span<const ValueView> items);
  Value BuildString(Activation& act, absl::Span<const ValueView> parts);
  Value BuildSlice(Activation& act, ValueView start, ValueView stop, ValueView step);
  Value BuildInterpolation(Activation& act, ValueView v, BorrowedRef text, int conversion, ValueView format);
  Value BuildTemplate(Activation& act, BorrowedRef strings, BorrowedRef interpolations);
  [[nodiscard]] bool ListAppend(Activation& act, BorrowedRef list, ValueView item);
  [[nodiscard]] bool SetAdd(Activation& act, BorrowedRef set, ValueView item);
  [[nodiscard]] bool MapAdd(Activation& act, BorrowedRef map, ValueView key, ValueView value);
  [[nodiscard]] bool ListExtend(Activation& act, BorrowedRef list, ValueView iterable);
  [[nodiscard]] bool SetUpdate(Activation& act, BorrowedRef set, ValueView iterable);
  [[nodiscard]] bool DictUpdate(Activation& act, BorrowedRef dict, ValueView mapping, BorrowedRef callable_or_null);
  Value ListToTuple(Activation& act, ValueView list);
  Value MakeFunction(Activation& act, BorrowedRef code, ValueView defaults, ValueView kwdefaults, ValueView annotations,
                     ValueView closure);
  [[nodiscard]] bool SetFunctionAttribute(Activation& act, BorrowedRef function, int flag, ValueView part);

 private:
  [[nodiscard]] bool FillPart(ValueView part);
  [[nodiscard]] bool PrepareMerged(ValueView mapping);

  BreakController& breaks_;
  NativeBoundary& boundary_;
  ReadJournal& reads_;
  ObjectTable& objects_;
  WriteJournal& writes_;
  ObjectContents& contents_;
  NativeArguments& arguments_;
  NativeProtocols& native_;
  ClassStatements& class_statements_;
  Iteration& iteration_;
};

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_PROTOCOLS_BUILDING_H_
