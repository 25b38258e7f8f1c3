// AttributeReads: the attribute protocol with sources, as CPython has it: type look-up, data descriptors, the
// instance's own attributes, other descriptors, __getattr__; and its forms for modules and types. Invariant:
// each look-up on the way has its guard, also one that found nothing.
#ifndef FRAMEFUSE_SYMBOLIC_PROTOCOLS_ATTRIBUTE_READS_H_
#define FRAMEFUSE_SYMBOLIC_PROTOCOLS_ATTRIBUTE_READS_H_

#include "symbolic/evaluator/protocols.h"
#include "symbolic/journals/array_functions.h"
#include "symbolic/protocols/super_attributes.h"

namespace framefuse {

class BreakController;
class CallEvaluator;
class Journals;
class MadeClasses;
class MissingAttributes;
class NativeArguments;
class NativeBoundary;
class ObjectContents;
class ObjectTable;
class ReadJournal;
class SpecialMethods;
class TensorAttributes;
struct Tracked;
class WriteJournal;

class AttributeReads {
 public:
  AttributeReads(Journals& journals, SpecialMethods& special, MissingAttributes& missing,
                 TensorAttributes& tensor_attributes, CallEvaluator& calls);

  Value LoadAttr(Activation& act, ValueView owner, BorrowedRef name);
  Value GenericGetAttr(Activation& act, ValueView owner, BorrowedRef name, bool suppress_missing);
  Value BindDescriptor(Activation& act, BorrowedRef descriptor, SourceId source, ValueView owner, PyTypeObject* type);
  Value ReadMember(BorrowedRef descriptor, ValueView owner, PyTypeObject* type);
  Value LoadMethod(Activation& act, ValueView owner, BorrowedRef name, Value* self);
  Value ModuleGetAttr(Activation& act, ValueView owner, BorrowedRef name);
  Value OwnObjectOfModule(ValueView module, BorrowedRef name);
  SuperAttributes& of_super() { return of_super_; }

 private:
  Value FieldOfClass(Activation& act, ValueView owner, BorrowedRef name, BorrowedRef in_meta);
  bool IsReadAsProperty(PyTypeObject* kind);
  bool GoesFirst(BorrowedRef descriptor);
  Value ReadGetSet(BorrowedRef descriptor, ValueView owner, PyTypeObject* type);
  BorrowedRef CMethodOf(ValueView owner, BorrowedRef name) const;
  Value TypeGetAttr(Activation& act, ValueView owner, BorrowedRef name);
  Value ThreadLocalAttr(Activation& act, ValueView owner, const Tracked& local, BorrowedRef name);

  BreakController& breaks_;
  NativeBoundary& boundary_;
  ReadJournal& reads_;
  ObjectTable& objects_;
  WriteJournal& writes_;
  ObjectContents& contents_;
  NativeArguments& arguments_;
  MadeClasses& made_;
  SpecialMethods& special_;
  MissingAttributes& missing_;
  TensorAttributes& tensor_attributes_;
  CallEvaluator& calls_;
  SuperAttributes of_super_;
  ArrayFunctions arrays_;
};

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_PROTOCOLS_ATTRIBUTE_READS_H_
