// CompiledEntry: one compiled version of a frame from one offset on: guards, inputs, executable, recipes,
// effects, and either a result or a resume point. Run does all of it in C++; no Python code is generated.
// Invariant: immutable once installed; allocations and the plan come before the first visible write
// (soundness rule 20). Owned by the per-code cache (shared_ptr: it may be dropped while it runs).
#ifndef FRAMEFUSE_SYMBOLIC_ENTRY_COMPILED_ENTRY_H_
#define FRAMEFUSE_SYMBOLIC_ENTRY_COMPILED_ENTRY_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "backends/graph/backend.h"
#include "common/compile_id.h"
#include "frame_eval/entry.h"
#include "guards/guard.h"
#include "symbolic/ambient/torch_state.h"
#include "symbolic/entry/drawn_numbers.h"
#include "symbolic/entry/effects.h"
#include "symbolic/entry/entry_sizes.h"
#include "symbolic/entry/entry_use.h"
#include "symbolic/entry/expectations.h"
#include "symbolic/entry/recipe.h"
#include "symbolic/entry/sharded_argument.h"
#include "symbolic/evaluator/activation.h"
#include "symbolic/messages/graph_break.h"

namespace framefuse {

// Runs an entry's tensor work: a plan of a built-in backend, or a Python callable of an FX backend.
class TensorWork {
 public:
  virtual ~TensorWork() = default;
  struct Report {
    bool before_writes = true;  // no input was written yet
    int otherwise = -1;         // what was expected and is not so
    int deferred = -1;          // the deferred fact that does not hold
  };
  // `symbols`: values of the graph's; those of unbacked ones are set here. False: a Python error is set, or something
  // was otherwise than expected, and all is as before.
  virtual bool Run(absl::Span<PyObject* const> inputs, absl::Span<std::int64_t> symbols, std::vector<Ref>* outputs,
                   Report* report) const = 0;
  // How long the backend took, by phase; for explain().
  virtual std::vector<PhaseTime> CompileTimes() const { return {}; }
};

// Places of the program's own that a frame gives a number: another one, or the one that was there.
struct NumbersWritten {
  std::vector<std::string> changed, kept;  // texts of their sources
};

// One slot of a frame that is rebuilt. Slots not named keep what they hold (root) or stay null.
struct SlotRecipe {
  int slot = 0;
  RecipeId value = kNoRecipe;  // kNoRecipe: becomes null
};

struct ResumeFrame {
  RecipeId function = kNoRecipe;  // kNoRecipe: the root, which is the real frame
  int next_instruction = 0;       // innermost: the one to execute natively; outer: the one after the call
  int call_instruction = 0;       // outer: the call under way, for line numbers and handlers
  bool push_null = false;         // outer: the result stands beside a null (a method that is none)
  int stack_depth = 0;
  Completion completion = Completion::kPush;  // how the result of the next inner frame is used
  RecipeId pending = kNoRecipe;               // kInit: the object under construction
  std::vector<SlotRecipe> slots;
};

struct ResumePoint {
  std::vector<ResumeFrame> frames;  // outermost first
  GraphBreakReason reason;
};

class CompiledEntry final : public Entry {
 public:
  bool IsDead() const override { return guards->IsDead() || expects.IsRefuted(); }
  std::string Explain(const FrameView& frame) const override;
  // Whether it saves the same tensors, in the same order, and goes on at the same place; both have their graph's text.
  bool SavesAs(const CompiledEntry& other) const;

  enum class Outcome : std::uint8_t { kReturned, kResume, kRunNatively, kOtherWay, kRaised };
  struct Failure {
    std::string text;
    int expected = -1;  // kOtherWay: which of `expects.outputs`, or
    int deferred = -1;  // which of `expects.deferred`, or
    int warning = -1;   // which of `expects.warnings`
  };
  // After guards->Check filled `sources`. kReturned: *result. kResume: *registers feeds the resume point.
  // kRunNatively: the plan failed before any visible write; the frame runs as Python (exact error, effects once), and
  // *failure says how it failed. kOtherWay: the same, for a value that is not as expected.
  Outcome Run(const ResolvedSources& sources, Ref* result, std::vector<Ref>* registers, Failure* failure) const;

  std::unique_ptr<GuardProgram> guards;
  std::vector<SourceId> inputs;
  std::vector<ShardedArgument> sharded;
  std::vector<DrawnNumber> draws;
  std::shared_ptr<TensorWork> executable;   // null: no tensor work
  std::shared_ptr<const EntrySizes> sizes;  // null: no size is symbolic
  Expectations expects;
  RecipeProgram recipes;
  std::vector<Effect> effects;
  std::optional<TorchState> end_state;  // set if the frame changes it
  std::optional<TorchState> run_state;  // what its operators go by, where that is not as a call finds it
  RecipeId end_exception = kNoRecipe;   // the handled exception (None: none) if the frame changes it
  RecipeId result = kNoRecipe;
  std::optional<ResumePoint> resume;
  CompileId id;
  std::shared_ptr<EntryUse> use;   // if the trace is on
  std::vector<Ref> operations;     // torch-level calls, for explain()
  std::string trace_calls;         // the same in JSON, for the trace
  std::string graph_text;          // if it was asked for (AttemptSettings), or is logged
  NumbersWritten written_numbers;  // WrittenNumbers()

 private:
  // To be put back where the run is dropped, or nothing.
  std::optional<TorchState> EnterRunState() const;
  // How the entry ends where its plan did not run to its end.
  Outcome AfterFailure(const TensorWork::Report& report, Failure* failure) const;
};

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_ENTRY_COMPILED_ENTRY_H_
