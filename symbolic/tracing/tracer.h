// Tracer: one capture attempt's tensors. Real tensors come in as fakes, torch functions run on the fakes, Close
// turns what was recorded into a joint forward and backward graph.
// Invariant: between Begin and End the thread's Fake dispatch key is on (except inside Suspended), so no operator
// can run for real unseen; after Drop or destruction nothing of the tracer keeps a fake alive.
// All methods need the GIL; Close releases it while autograd's engine runs.
#ifndef FRAMEFUSE_SYMBOLIC_TRACING_TRACER_H_
#define FRAMEFUSE_SYMBOLIC_TRACING_TRACER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "frame_eval/ref.h"
#include "symbolic/tracing/break.h"
#include "symbolic/tracing/geometry_argument.h"
#include "symbolic/tracing/symbolic_dims.h"
#include "symbolic/tracing/traced_sizes.h"

namespace framefuse::ir {
class Graph;
struct Origin;
}  // namespace framefuse::ir

namespace framefuse::tracing {

class ValueReader;

enum class InputRole : std::uint8_t {
  kArgument,
  kParameter,
  kBuffer,
  kDrawn,  // a random number: another one in each call
};

// Where in the user's program an operator is called. Current is asked once an op and must cost nanoseconds; its
// ids are the provider's own and are resolved when the graph closes. -1: unknown.
class OriginProvider {
 public:
  virtual ~OriginProvider() = default;
  virtual std::int32_t Current() = 0;
  virtual ir::Origin Resolve(std::int32_t id) = 0;
};

// One input of the plan, in the order of Plan::Run's inputs.
struct TracedInput {
  int input_index = -1;  // as given to MakeInput; -1: it came in only as the gradient below
  int gradient_of = -1;  // the tensor is the `.grad` of the input with this index
  // How far eager would have moved the tensor's version counter. Writes below autograd's view of versions (batch
  // norm's statistics, x.data) move nothing.
  int version_bumps = 0;
  // The graph names places of its storage, whose count begins elsewhere for another offset.
  bool storage_offset_read = false;
  bool storage_read = false;    // the graph takes the tensor for all that is in its storage
  bool asked_for_grad = false;  // requires_grad_() was called on it: it requires grad from before the graph runs
};

// `.grad` of an input was replaced: it becomes the plan's user output `output`, or None if that is -1.
struct GradientEffect {
  int input_index = -1;
  int output = -1;
};

// An input gets other sizes and strides, by a method of its own.
struct GeometryEffect {
  int input_index = -1;
  std::string method;
  std::vector<GeometryArgument> arguments;
};

struct TracedGraph {
  std::shared_ptr<ir::Graph> graph;              // recorded form: in-place operators run in order
  std::vector<TracedInput> inputs;               // the graph's inputs that are not tangents
  int num_outputs = 0;                           // the caller's outputs come first among the user outputs …
  std::vector<GradientEffect> gradient_effects;  // … then new gradients
  std::vector<GeometryEffect> geometry_effects;  // in order, behind the graph
  // Inputs whose `.grad` the graph relies on (it accumulated into it, or found none): guard it as it was.
  std::vector<int> gradients_read;
  std::vector<std::int32_t> places;  // by node: the origin provider's ids
  // Another graph may come out where an input is a leaf and was none, or was one: guard that.
  bool leaves_read = false;
};

struct TracerStatistics {
  std::int64_t nodes = 0;
  std::int64_t own_shapes = 0;  // inferred by our shape functions
  std::int64_t cpp_meta = 0;    // by torch's C++ meta kernels
  std::int64_t composite_meta = 0;
  std::int64_t runs_for_metadata = 0;  // of CPU kernels, on zeros
  std::int64_t python_meta = 0;        // by Python meta kernels, 20 to 350 µs each
  std::vector<std::pair<std::string, int>> python_ops;
};

class Tracer {
 public:
  Tracer();
  ~Tracer();
  Tracer(const Tracer&) = delete;
  Tracer& operator=(const Tracer&) = delete;

  // Sets the thread's dispatch state for capture, and restores it.
  void Begin();
  void End();
  bool Warned() const;  // the pending break is a warning
  Surroundings& around();
  class Scope {
   public:
    explicit Scope(Tracer& tracer) : tracer_(tracer) { tracer_.Begin(); }
    ~Scope() { tracer_.End(); }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Tracer& tracer_;
  };
  // A stretch of native code: exits to Python that is not captured, our own calls of torch. Nests.
  class Suspended {
   public:
    Suspended();
    ~Suspended();
    Suspended(const Suspended&) = delete;
    Suspended& operator=(const Suspended&) = delete;

   private:
    struct State;
    std::unique_ptr<State> state_;
  };

  // The fake for a tensor that existed before the frame; the same tensor gives the same fake. A fake of a tensor
  // whose metadata is not traced is refused: FailedPrecondition, the message is the break's explanation.
  absl::StatusOr<Ref> MakeInput(BorrowedRef real, InputRole role, int input_index, std::string_view name = {},
                                SymbolicDims symbolic = {});
  // Lets `real` take part in operators and returns its fake. `copy`: fresh host data; the graph keeps the values as
  // they are now and makes a new tensor of them on each run. Else the tensor itself, which must never change.
  absl::StatusOr<Ref> RegisterConstant(BorrowedRef real, bool copy);

  // Whether `object` is a tensor that any tracer made.
  static bool IsFake(BorrowedRef object);
  // The real tensor behind an input's fake; null for others.
  Ref RealOf(BorrowedRef fake) const;
  // The fake made for a real tensor; null if it is not an input.
  BorrowedRef FakeOf(BorrowedRef real) const;
  int InputIndexOf(BorrowedRef fake) const;  // -1: not an input
  Ref FakeOfInputValue(int value) const;     // by the graph's value; null if that is no input's
  // The graph's value behind a fake of this tracer, -1 for others. Two fakes may stand for one value.
  int ValueOf(BorrowedRef fake) const;

  TracedSizes& sizes();
  const TracedSizes& sizes() const;
  Numbers& numbers();  // of the sizes

  // A break found inside torch. Sticky: check after each native call, also when no exception came out.
  const std::optional<TensorBreak>& PendingBreak() const;
  // What follows depends on which of the inputs are leaves.
  void AskLeaves();
  // Whether a backward pass from the outputs could come to one of the tensors asked for, an input, through the history
  // of another input. Both are tuples.
  bool MayReachThroughHistory(BorrowedRef outputs, BorrowedRef asked) const;
  // Errors that reach Python: those of operators, which check fakes as they check tensors, are the program's own.
  void ForgetError();
  bool IsErrorOfOperator(std::string_view text) const;  // since ForgetError
  void SetValueReader(ValueReader* reader);             // null: no value is relied on; must outlive the tracing
  void SetOriginProvider(OriginProvider* provider);     // null: none; must outlive the tracing
  int NodeCount() const;
  // Why a deep copy of the tensor behind a fake is another thing than a copy of its values, beside which no tensor of
  // the program's has the same memory; empty: it is not. Then a guard compares what decides it.
  std::string WhyNoDeepCopy(BorrowedRef fake);
  // A tensor with the values of a fake: of one that is made of constants only, or that may be relied on
  // (value_reads.h); null: they are not known.
  Ref KnownValueOf(BorrowedRef fake);

  bool RecordsBackward() const;  // Close stands at the backward pass
  // Ends the recording. `outputs` are the fakes that compiled code must return or keep; `for_backward`: record
  // the backward of those that require grad. A break (a change of an input that cannot be replayed) comes back as
  // FailedPrecondition and is pending too. `of_functions`: fakes that an autograd.Function gave.
  absl::StatusOr<TracedGraph> Close(absl::Span<const BorrowedRef> outputs, bool for_backward = true,
                                    absl::Span<const Ref> of_functions = {});
  // ---- branches of a conditional (record_branch.h). FailedPrecondition: the message is the break's explanation
  // `readable`: fakes of this attempt that a branch may read. Inputs are known.
  void BeginConditional(const std::vector<Ref>& readable);
  void BeginBranch();
  bool in_branch() const;
  absl::Status EndBranch(absl::Span<const BorrowedRef> outputs);
  // The operator and its arguments, for the last two branches: the one for true, then the one for false.
  struct CondCall {
    Ref op;
    Ref args;              // without the condition, which comes first
    Ref kwargs;            // dict
    bool replays = false;  // its backward draws the forward's random numbers again
  };
  absl::StatusOr<CondCall> JoinBranches();
  absl::StatusOr<CondCall> JoinOneBranch();  // the last one, for both

  // Lets go of every fake and of the graph. Outside Begin and End only.
  void Drop();
  TracerStatistics Statistics() const;

  // What of a fake can change without an operator that is recorded: compared, never read. Empty: no fake.
  static std::vector<std::uintptr_t> StateOf(BorrowedRef object);
  // The same of all inputs, to be asked whether it still holds. One that came later is compared with its entry.
  std::function<bool()> StateOfInputs() const;
  // All fakes alive in the process.
  static std::int64_t LiveFakes();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// torch.ops' overloads of framefuse::cond, once a process.
void SetCondOperators(Ref plain, Ref random);

}  // namespace framefuse::tracing

#endif  // FRAMEFUSE_SYMBOLIC_TRACING_TRACER_H_
