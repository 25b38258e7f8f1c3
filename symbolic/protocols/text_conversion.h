// TextConversion: objects as text: repr(), str(), format() and f-strings. Special methods written in Python are
// captured. Invariant: C code turns into text what holds no instances, since it would read their attributes.
#ifndef FRAMEFUSE_SYMBOLIC_PROTOCOLS_TEXT_CONVERSION_H_
#define FRAMEFUSE_SYMBOLIC_PROTOCOLS_TEXT_CONVERSION_H_

#include <optional>

#include "symbolic/evaluator/protocols.h"
#include "symbolic/rules/call_rules.h"

namespace framefuse {

class BreakController;
class CallEvaluator;
class Journals;
class NativeArguments;
class NativeBoundary;
class NativeProtocols;
class ObjectTable;
class ReadJournal;
namespace tracing {
class Tracer;
}

class TextConversion {
 public:
  TextConversion(Journals& journals, NativeProtocols& native, CallEvaluator& calls);

  std::optional<Value> TextOf(Activation& act, SpecialCall which, absl::Span<const ValueView> args);
  Value ConvertValue(Activation& act, ValueView v, int conversion);
  Value FormatValue(Activation& act, ValueView v, int conversion, ValueView spec);

 private:
  std::optional<Value> TextByMethod(Activation& act, ValueView v, const char* method, absl::Span<const ValueView> args);
  Ref NumberToFormat(BorrowedRef tensor) const;  // null: it is not known, or the tensor is formatted as an object
  std::optional<Value> TextOfException(ValueView v, bool repr);

  tracing::Tracer& tracer_;
  BreakController& breaks_;
  NativeBoundary& boundary_;
  ReadJournal& reads_;
  ObjectTable& objects_;
  NativeArguments& arguments_;
  NativeProtocols& native_;
  CallEvaluator& calls_;
};

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_PROTOCOLS_TEXT_CONVERSION_H_
