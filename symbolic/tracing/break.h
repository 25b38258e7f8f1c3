// A break found inside torch: an exception that survives torch's own layers and Python, plus its description.
// Invariant: throwing one first makes it the recording's pending break, which is sticky: code that catches the
// exception cannot hide it from the capture (soundness rule 12).
#ifndef FRAMEFUSE_SYMBOLIC_TRACING_BREAK_H_
#define FRAMEFUSE_SYMBOLIC_TRACING_BREAK_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace framefuse::tracing {

// What a program set on the way: operators behind it go by it, and those before did not.
enum class SetOnTheWay : std::uint8_t { kNothing, kBackends, kDefaultDtype };
// Which of torch's warnings break a recording, or are said in it (due_warnings.h).
enum class HeardWarnings : std::uint8_t {
  kAll,
  kDue,            // what eager would say now, in this process
  kDueOfRepeated,  // … and of what was recorded before: what is said each time was said
};

// What goes for operators beside their arguments.
struct Surroundings {
  HeardWarnings heard_warnings = HeardWarnings::kAll;
  SetOnTheWay set_on_the_way = SetOnTheWay::kNothing;
};

enum class BreakKind : std::uint8_t {
  kDataDependent,      // a value, or a size that depends on values, is needed: item, bool, nonzero
  kRealTensor,         // an untraced tensor met a traced one
  kUnsupportedTensor,  // layout, device, subclass or key set that is not traced
  kMetadataMutation,   // resize_, set_, x.data = y … on a tensor that existed before
  kHiddenState,        // generators, hooks and other state that the graph cannot express
  kNoShapeRule,        // an operator without a shape function or meta kernel
  kStaleTensor,        // a traced tensor was used outside its capture
  kMutation,           // a write that the graph cannot express
  kSetting,            // it goes by a setting that those before it did not run under
  kWarning,            // the operator warns, each time it runs
};
std::string_view BreakKindName(BreakKind kind);

struct TensorBreak {
  BreakKind kind = BreakKind::kDataDependent;
  std::string context;      // the operator or call
  std::string explanation;  // one sentence
  std::string hint;         // what the user can do; may be empty
  int before_node = -1;     // found when the graph was closed: it can be closed if it ends before this node
};

// Makes the break pending on the current recording, if there is one, and throws.
[[noreturn]] void ThrowBreak(BreakKind kind, std::string context, std::string explanation, std::string hint = {});
[[noreturn]] void ThrowBreak(TensorBreak what);

}  // namespace framefuse::tracing

#endif  // FRAMEFUSE_SYMBOLIC_TRACING_BREAK_H_
