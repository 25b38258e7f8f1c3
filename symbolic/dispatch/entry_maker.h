// EntryMaker: makes the entry of a place where a frame stands, or says why there is none and has Python run the frame.
// Invariant: a frame that it does not make an entry for has an EagerFallback, or an error set; limits count for each
// compiled object (one EntryMaker) and each place. Needs the GIL.
#ifndef FRAMEFUSE_SYMBOLIC_DISPATCH_ENTRY_MAKER_H_
#define FRAMEFUSE_SYMBOLIC_DISPATCH_ENTRY_MAKER_H_

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "frame_eval/code_cache.h"
#include "symbolic/attempt/attempt.h"
#include "symbolic/dispatch/capture_trace.h"
#include "symbolic/dispatch/eager_fallback.h"
#include "symbolic/dispatch/lazy_parameters.h"
#include "symbolic/frames/user_stack.h"
#include "symbolic/learned/first_calls.h"

namespace framefuse {

// What happened, for explain() and statistics.
class RunObserver {
 public:
  virtual ~RunObserver() = default;
  virtual void OnCaptured(const CompiledEntry& entry, const AttemptResult& result) = 0;
  virtual void OnBreak(const GraphBreakReason& reason, const UserStack& stack) = 0;
  virtual void OnFallback(const EagerFallback& fallback) = 0;
};

// A compiled object is called, which has a limit of its own, also below a frame that is at another one's.
class OwnLimitScope {
 public:
  OwnLimitScope();
  ~OwnLimitScope();
  OwnLimitScope(const OwnLimitScope&) = delete;
  OwnLimitScope& operator=(const OwnLimitScope&) = delete;

 private:
  const int outer_;
};

class EntryMaker {
 public:
  explicit EntryMaker(AttemptSettings settings);

  const AttemptSettings& settings() const { return settings_; }
  MakerId id() const { return id_; }
  void set_observer(RunObserver* observer) {
    observer_ = observer;
    settings_.keeps_graph_text = true;
  }
  // What the compiled object calls, and its code; both only for comparison and for messages, while a call is under way.
  void SetCompiled(PyCodeObject* code, BorrowedRef callable) {
    compiled_code_ = code;
    callable_ = callable;
  }

  // What becomes of a frame that got no entry: an error is set, Python runs it and what it calls is captured, Python
  // runs it all, or Python runs it and what it calls uses the entries there are.
  enum class Without : std::uint8_t { kRaises, kRunsAsPython, kRunsWhole, kRunsAtLimit };
  struct Made {
    std::shared_ptr<CompiledEntry> entry;
    Without without = Without::kRunsAsPython;           // the entry is null
    std::optional<GraphBreakReason> unconfirmed_error;  // what to report if Python runs it without an exception
    std::optional<Raised> raised;
  };
  // `after` is the break that the frame goes on after, if any.
  [[nodiscard]] Made Make(PyThreadState* thread, frame_ops::Frame* frame, Site& site, const GraphBreakReason* after);

  // The frame's rest by Python, to its end. An error that the attempt only met is reported then.
  [[nodiscard]] PyObject* RunWithout(PyThreadState* thread, frame_ops::Frame* frame, const Made& made);
  // The same for a frame that no entry is asked for.
  [[nodiscard]] PyObject* RunAsPython(PyThreadState* thread, frame_ops::Frame* frame, FallbackKind kind,
                                      std::string_view detail = {});
  // Its entry's plan failed with `error` before it wrote anything.
  [[nodiscard]] PyObject* RunAfterFailedPlan(PyThreadState* thread, frame_ops::Frame* frame, const std::string& error);
  // A tensor's value sends it the way that raises.
  PyObject* RunOtherWay(PyThreadState* thread, frame_ops::Frame* frame, const CompiledEntry& entry,
                        const CompiledEntry::Failure& failure);
  // Says that the frame runs as Python; false: that is an error under fullgraph, which is set.
  [[nodiscard]] bool Say(FallbackKind kind, PyCodeObject* code, std::string_view detail = {});

 private:
  Made Waiting(const FrameView& view, const Site& site, const GraphBreakReason* after);
  static Made Raises();  // the error that is set
  Made None(FallbackKind kind, PyCodeObject* code, std::string_view detail = {});
  using Entries = std::vector<std::shared_ptr<Entry>>;
  Entries Known(const Site& site, const FrameView& view) const;
  void LogRecompile(Site& site, const Entries& known, const FrameView& view) const;
  void NoteOtherSizes(const Entries& known, const FrameView& view) const;
  std::int64_t Limit() const;
  enum class WhichLimit : std::uint8_t { kNone, kOwn, kOfAll };
  WhichLimit LimitMet(Site& site, const FrameView& view) const;
  std::string TextOf(WhichLimit limit) const;  // of one that is met
  // At a limit the entry used least recently leaves.
  void Install(const std::shared_ptr<CompiledEntry>& entry, const FrameView& view, Site& site) const;
  Made AtLimit(Site& site, const FrameView& view, WhichLimit which);
  static void NoteFailures(Site& site, const Entries& known, const FrameView& view);
  ValuePlaces::Rely HowToRely(const Site& site) const;
  [[nodiscard]] Made Compile(PyThreadState* thread, frame_ops::Frame* frame, Site& site, const Entries& known);
  AttemptResult Attempt(PyThreadState* thread, frame_ops::Frame* frame, const Site& site) const;
  Made AfterAttempt(AttemptResult attempt, const FrameView& view, bool starting, Site& site);
  // Logs and counts a break; false: it is an error, which is set: under fullgraph, or where the program says so.
  bool Report(const GraphBreakReason& reason, bool is_error);
  bool ReportErrorOfAttempt(const Made& made, PyCodeObject* code, bool returned);
  // The code that a message about `code` names.
  PyCodeObject* Shown(PyCodeObject* code) const;

  AttemptSettings settings_;
  const MakerId id_;
  PyCodeObject* compiled_code_ = nullptr;
  BorrowedRef callable_;
  RunObserver* observer_ = nullptr;
  bool recorded_stream_reported_ = false;
  FirstCalls first_calls_;
  LazyParameters lazy_;
};

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_DISPATCH_ENTRY_MAKER_H_
