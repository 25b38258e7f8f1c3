// Journals: the parts of an attempt that keep what it did, wired to one another. Whoever evaluates a protocol is made
// from them and keeps references to those that it needs. Invariant: it owns no more than they; classes that were made
// end after everything else.
#ifndef FRAMEFUSE_SYMBOLIC_JOURNALS_JOURNALS_H_
#define FRAMEFUSE_SYMBOLIC_JOURNALS_JOURNALS_H_

#include "symbolic/ambient/function_modes.h"
#include "symbolic/journals/backward_phase.h"
#include "symbolic/journals/break_controller.h"
#include "symbolic/journals/capture_position.h"
#include "symbolic/journals/context_variables.h"
#include "symbolic/journals/expected_truths.h"
#include "symbolic/journals/frame_stack.h"
#include "symbolic/journals/fx_journal.h"
#include "symbolic/journals/made_classes.h"
#include "symbolic/journals/native_arguments.h"
#include "symbolic/journals/native_boundary.h"
#include "symbolic/journals/object_contents.h"
#include "symbolic/journals/object_table.h"
#include "symbolic/journals/random_draws.h"
#include "symbolic/journals/read_journal.h"
#include "symbolic/journals/symbols.h"
#include "symbolic/journals/value_reads.h"
#include "symbolic/journals/write_journal.h"
#include "symbolic/tracing/tracer.h"

namespace framefuse {

class Journals {
 public:
  Journals(Control& control, frame_ops::Frame* real_frame, const CaptureOptions& options)
      : options_(options), frames_(real_frame, options.fx), breaks_(control, frames_, tracer_, made_, modes_) {
    tracer_.SetOriginProvider(&frames_);
    tracer_.SetValueReader(&values_);
    tracer_.sizes().SetListener(&symbols_);
  }
  Journals(const Journals&) = delete;
  Journals& operator=(const Journals&) = delete;

  const CaptureOptions& options() const { return options_; }
  FrameStack& frames() { return frames_; }
  FunctionModes& modes() { return modes_; }
  tracing::Tracer& tracer() { return tracer_; }
  FxJournal& fx() { return fx_; }
  BreakController& breaks() { return breaks_; }
  BackwardPhase& backward() { return backward_; }
  ExpectedTruths& expected() { return expected_; }
  NativeBoundary& boundary() { return boundary_; }
  ReadJournal& reads() { return reads_; }
  ObjectTable& objects() { return objects_; }
  WriteJournal& writes() { return writes_; }
  ObjectContents& contents() { return contents_; }
  NativeArguments& arguments() { return arguments_; }
  MadeClasses& made() { return made_; }
  Symbols& symbols() { return symbols_; }
  ContextVariables& contexts() { return contexts_; }
  const ValueReads& values() const { return values_; }
  RandomDraws& draws() { return draws_; }

 private:
  MadeClasses made_{reads_, objects_};
  CaptureOptions options_;
  FrameStack frames_;
  FunctionModes modes_;
  BreakController breaks_;
  BackwardPhase backward_{frames_, breaks_};
  ExpectedTruths expected_{options_, backward_, tracer_};
  NativeBoundary boundary_{options_, frames_, breaks_, tracer_};
  ReadJournal reads_{frames_, breaks_, backward_, made_, tracer_};
  // A graph of torch's has no form for a float that changes.
  Symbols symbols_{options_.sizes, !options_.fx, frames_, reads_, tracer_};
  ObjectTable objects_{frames_, breaks_, boundary_, reads_, symbols_, tracer_, !options_.fx};
  tracing::Tracer tracer_;
  FxJournal fx_{options_.fx, tracer_};
  WriteJournal writes_{breaks_, reads_, objects_.tracked()};
  ObjectContents contents_{breaks_, reads_, writes_, objects_, symbols_};
  ContextVariables contexts_{breaks_, backward_, reads_, objects_, writes_};
  NativeArguments arguments_{breaks_, reads_, objects_, contents_};
  // A callable of Python's is not left halfway.
  ValueReads values_{options_.values, options_.unbacked, !options_.fx, backward_, frames_,
                     reads_,          objects_,          symbols_,     expected_};
  RandomDraws draws_{options_.fx, breaks_, reads_, objects_, tracer_};
};

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_JOURNALS_JOURNALS_H_
