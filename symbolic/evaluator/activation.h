// Activation: one interpreter frame that our evaluator is executing, and Control: what stops a run.
// An activation wraps a real, linked frame of the interpreter (only frame_eval/versions/ touches its fields) and
// adds the source ids of its slots. Activations of a thread form a stack through `parent`.
// Invariant: while an instruction executes, `instruction` is its index and `resume_depth` the stack depth
// that is left once its operands are popped, so that a chain of inlined frames can be rebuilt elsewhere.
#ifndef FRAMEFUSE_SYMBOLIC_EVALUATOR_ACTIVATION_H_
#define FRAMEFUSE_SYMBOLIC_EVALUATOR_ACTIVATION_H_

#include <cstdint>
#include <limits>
#include <vector>

#include "frame_eval/ref.h"
#include "frame_eval/versions/frame_ops.h"
#include "guards/source.h"
#include "symbolic/evaluator/value.h"

namespace framefuse {

// How a nested frame was entered, and so how its return value completes the caller's instruction.
enum class Completion : std::uint8_t {
  kRoot,      // the outermost frame of the run
  kPush,      // the return value is the result of the caller's instruction (a call, a property, …)
  kDrop,      // the return value is dropped (__setattr__, __setitem__, …)
  kPushNone,  // the same below a call (setattr(), operator.setitem()), whose result is None
  kInit,      // __init__: must be None; the result is the new object, held in `pending_result`
  kCallback,  // entered from C code: cannot be resumed, a break moves to the outermost C call
};

// Set for a slot whose value was there before the run and has not been seen yet: the first LOAD of it goes
// through Protocols::AdoptSlot.
inline constexpr SourceId kUnadopted = std::numeric_limits<SourceId>::min();

struct Activation {
  frame_ops::Frame* frame = nullptr;
  Activation* parent = nullptr;
  Completion completion = Completion::kRoot;
  Ref pending_result;             // kInit: the object under construction
  std::vector<SourceId> sources;  // parallel to the frame's localsplus + stack
  int stack_depth = 0;            // live stack entries (valid whenever a protocol is called)
  int resume_depth = 0;           // depth without the current instruction's operands
  // Index (code units) where the current instruction starts, its EXTENDED_ARG (and a call's KW_NAMES, PRECALL)
  // included: SetNextInstruction(frame, instruction) executes it again. Bytecode::At gives the rest.
  int instruction = 0;
  int next_instruction = 0;   // index after it and its caches
  std::uint64_t started = 0;  // Control::executed before the current instruction: names it to Control::stop_at
};

// Shared by all activations of one run.
struct Control {
  // Instructions started so far over all activations (a call with its KW_NAMES and PRECALL is one), and where to
  // stop: Protocols::OnStop is called before an instruction starts when `executed` equals `stop_at`. So while an
  // instruction executes, stop_at = executed - 1 names it.
  std::uint64_t executed = 0;
  std::uint64_t stop_at = std::numeric_limits<std::uint64_t>::max();
  // Sticky (soundness rule 12): once set, no handler runs any more; every activation exits with kUnwound. The evaluator
  // asks where an instruction failed and before one starts, so that protocols need not.
  bool unwinding = false;
  void Unwind() {
    unwinding = true;
    stop_at = executed;
  }
  // Serve signals, GIL requests, collections and asynchronous exceptions where CPython's evaluator does.
  bool serves_pending_work = true;
};

enum class [[nodiscard]] Outcome : std::uint8_t{
    kReturned,  // RETURN_VALUE; the value is the result
    kYielded,   // YIELD_VALUE or RETURN_GENERATOR; the frame is suspended
    kRaised,    // an exception escapes; the Python error is set and has its traceback entry
    kPaused,    // OnStop asked to pause: the frame stands before `instruction`, its state is intact
    kUnwound,   // Control::unwinding
};

enum class [[nodiscard]] StopAction : std::uint8_t{kContinue, kPause, kUnwind};

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_EVALUATOR_ACTIVATION_H_
