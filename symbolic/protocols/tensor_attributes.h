// TensorAttributes: attributes of fake tensors: what the fake itself answers, where guards compare that of the real
// one, and what the user set on the real tensor. Invariant: of a tensor from outside nothing is read that no guard
// compares.
#ifndef FRAMEFUSE_SYMBOLIC_PROTOCOLS_TENSOR_ATTRIBUTES_H_
#define FRAMEFUSE_SYMBOLIC_PROTOCOLS_TENSOR_ATTRIBUTES_H_

#include <optional>

#include "symbolic/evaluator/protocols.h"
#include "symbolic/journals/tracked.h"

namespace framefuse {

class AttributeReads;
class BreakController;
class FunctionModes;
class FxJournal;
class Journals;
class NativeBoundary;
class ObjectTable;
class ReadJournal;
class WriteJournal;
namespace tracing {
class Tracer;
}

class TensorAttributes {
 public:
  TensorAttributes(Journals& journals, AttributeReads& attributes);

  void GuardGradient(const Tracked& tensor, BorrowedRef seen);
  // A name that is no attribute of tensors'; a null value deletes. False: an error, or it broke.
  [[nodiscard]] bool SetOwn(ValueView owner, BorrowedRef name, ValueView value);
  Value TensorGetAttr(Activation& act, ValueView owner, BorrowedRef name);

 private:
  void GuardShown(Tracked& tensor, BorrowedRef name);
  std::optional<Value> OwnOf(Tracked& tensor, BorrowedRef name);

  FunctionModes& modes_;
  tracing::Tracer& tracer_;
  FxJournal& fx_;
  BreakController& breaks_;
  NativeBoundary& boundary_;
  ReadJournal& reads_;
  ObjectTable& objects_;
  WriteJournal& writes_;
  AttributeReads& attributes_;
};

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_PROTOCOLS_TENSOR_ATTRIBUTES_H_
