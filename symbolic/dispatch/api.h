// The face of capture towards the Python package: what python/bindings.cpp calls, in plain C++ types.
// Everything here needs the GIL. Functions that can run user code report failure as CPython does: a null Ref or
// false, with a Python error set. Nothing here knows pybind11, and bindings.cpp knows nothing else of symbolic/.
#ifndef FRAMEFUSE_SYMBOLIC_DISPATCH_API_H_
#define FRAMEFUSE_SYMBOLIC_DISPATCH_API_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "frame_eval/ref.h"
#include "symbolic/learned/dynamic_sizes.h"

namespace framefuse {

struct ExportedGraph;

// The package's exception classes, given once at import.
struct PythonErrors {
  Ref unsupported;     // framefuse.Unsupported(message, break_reason or None): fullgraph, or what is not built yet
  Ref backend_error;   // framefuse.BackendError: a backend failed, or its compiled graph could not be made
  Ref internal_error;  // framefuse.InternalError: a bug of ours, raised if config().raise_on_bug
};
// Installs the types and prepares the process (per-code cache, dispatcher fallback). Called once, at import.
absl::Status Initialize(PythonErrors errors);

// ---- compiled functions

// Checked by the Python side: backend, mode and options are known names with fitting values.
// Entries are shared by compiled objects whose options are Equal (soundness rule 17).
struct CompileOptions {
  bool fullgraph = false;
  DynamicMode dynamic = DynamicMode::kNever;
  bool tell_libraries = false;   // is_compiling() is True in installed packages' code, too
  std::string backend = "fuse";  // "fuse" or "aten"; any other name only labels `fx_backend`
  std::string mode = "default";
  std::vector<std::pair<std::string, std::string>> options;  // sorted by name, values as text
  // These two are the compiled object's own, and no part of what makes options Equal:
  std::int64_t recompile_limit = -1;  // negative: config().recompile_limit
  std::string name;                   // for messages
  // For an FX backend: an object of framefuse._fx.FxBackend, whose methods say what they are given:
  //   build and run_on_fakes inside the attempt (fx_graph.cpp), compile after it, judge and complain when what
  //   compile returned raises or returns something else than the graph's outputs (executable.cpp).
  Ref fx_backend;
  // What makes two FX backends equal: the user's backend callable.
  Ref fx_backend_identity;

  bool Equal(const CompileOptions& other) const;
};

// A callable with vectorcall that runs compiled code for `callable` (a function, a bound method or anything else
// callable). It binds as a method does (__get__), has a __dict__, is weakly referenceable, and forwards __name__,
// __qualname__,
// __doc__, __module__, __signature__ …; __wrapped__ is `callable`. `remake`: called with another callable, makes one of
// that, for copies and pickles.
Ref MakeCompiledFunction(BorrowedRef callable, const CompileOptions& options, BorrowedRef remake);
bool IsCompiledFunction(BorrowedRef object);
// What a compiled generator or coroutine function returns: `function` makes it of the compiled function and what the
// user's own function returned.
void SetSuspended(Ref function);
// A call that resumes such a generator or coroutine, as part of the compiled function's call.
Ref ResumeCompiled(BorrowedRef function, BorrowedRef callable, absl::Span<PyObject* const> args);

// A callable that runs `callable` without capture: in captured code a call of it is a graph break. With `recursive`
// compiled functions called below run their Python code as well.
Ref MakeDisabledFunction(BorrowedRef callable, bool recursive, BorrowedRef remake);

// ---- what captured code may call with a meaning of its own

enum class SpecialFunction : std::uint8_t {
  kIsCompiling,       // True in captured code, for installed packages where they are to be told
  kGraphBreak,        // a graph break at this call
  kCond,              // (tensor, if it holds, if not, operands): one operator of the graph
  kInferenceMode,     // (mode): a block of inference mode begins; (): it ends
  kDeepCopyOfTensor,  // (tensor): None, or a break where a deep copy of it is not a copy of its values
  kCheckpoint,        // (function without arguments): one operator whose backward computes it again
  kLog,               // (…): whether the entry emits the record of a log (calls/log_calls.h)
};
// A call of the function is left to the entry, which makes it if the objects given to it outlive the frame.
void RegisterDeferred(BorrowedRef callable);
// A call of the function sets an attribute of a tensor that is read where a call's arguments come in: it breaks.
void RegisterMark(BorrowedRef callable);
// Known by identity from then on; `callable` is kept alive.
void RegisterSpecialFunction(BorrowedRef callable, SpecialFunction meaning);
// In captured code a call of `callable` is a call of `replacement` (torch.cond → framefuse.cond, …).
// `of_torch_only`: where torch's own code makes it.
void RegisterSubstitute(BorrowedRef callable, BorrowedRef replacement, bool of_torch_only);
// A call of `callable` is recorded as one node and not looked into.
void AllowInGraph(BorrowedRef callable);

// ---- process-wide state

enum class Stance : std::uint8_t {
  kDefault,
  kForceEager,        // compiled functions run their Python code
  kEagerOnRecompile,  // use entries there are; make none
  kFailOnRecompile,   // raise where an entry would be made, the first one too
  kEagerThenCompile,  // the first call is Python's; the second knows what changed
};
Stance GetStance();
void SetStance(Stance stance);

// Drops every entry and everything learnt; compiled functions stay usable and start afresh.
void Reset();

// Whether this thread is capturing at this moment.
bool IsCapturing();
void EnsureLastingDeviceGuard();  // before a FakeTensorMode of torch's is entered

// Counted since the process started.
struct Statistics {
  std::int64_t captures = 0;  // attempts that ended in an entry
  std::int64_t attempts = 0;  // including those dropped
  std::int64_t graphs = 0;    // entries with at least one operation
  std::int64_t nodes = 0;     // of those entries' graphs, as recorded
  std::int64_t symbols = 0;   // numbers of theirs that calls bring
  std::int64_t graph_breaks = 0;
  std::int64_t recompiles = 0;       // captures of a code object that had an entry
  std::int64_t hits = 0;             // calls answered by an entry
  std::int64_t eager_fallbacks = 0;  // frames that Python ran (eager_fallbacks.def), of these kinds:
  std::vector<std::pair<std::string, std::int64_t>> fallbacks_by_name;
  std::int64_t bugs = 0;
  std::int64_t live_fakes = 0;  // now
  // Of attempts that came to the end of their frame: instructions evaluated, those of inlined frames included,
  // operators recorded, and the time of both.
  std::int64_t instructions = 0;
  std::int64_t operators = 0;
  double evaluation_seconds = 0;
  double capture_seconds = 0;  // evaluation with journals, guards and entry; without the backend
  double backend_seconds = 0;
};
Statistics GetStatistics();

// ---- explain

struct ExplainFrame {
  std::string file;
  int line = 0;
  std::string function;
  std::string source;  // text of the line, stripped
};

struct ExplainBreak {
  std::string reason;  // explanation: context
  std::string hint;
  std::string id;                        // of the compilation: 2/1
  std::string expression;                // what the instruction stands for
  std::string module;                    // around it: "layers.3.self_attn (Attention)", or empty
  std::vector<ExplainFrame> user_stack;  // outermost first
};

struct ExplainGraph {
  std::vector<Ref> operations;  // targets of the call_function nodes, in order
  std::string text;             // the ATen graph
  std::string id;               // of the compilation
};

struct ExplainFallback {
  std::string name;  // as in statistics()
  std::string reason;
  std::string hint;
  ExplainFrame function;  // the line is its first
};

struct ExplainReport {
  std::vector<ExplainGraph> graphs;
  std::vector<ExplainFallback> fallbacks;
  std::vector<ExplainBreak> breaks;
  std::vector<std::string> guards;                            // one readable Python function for each entry
  std::vector<std::pair<std::string, double>> compile_times;  // stage, seconds; "backend: …" are parts of "backend"
};

// Captures `callable` afresh, without using or leaving entries of other compiled objects, while calling it once.
bool Explain(BorrowedRef callable, const CompileOptions& options, BorrowedRef args_tuple, BorrowedRef kwargs_or_null,
             ExplainReport* report);

// ---- export

// Captures `callable` as one graph while calling it once, as Explain does, and returns what it returned. `exported`
// gets the graph; `graphs`: how many were captured (another number than 1: there is none to export).
Ref Export(BorrowedRef callable, const CompileOptions& options, BorrowedRef args_tuple, BorrowedRef kwargs_or_null,
           ExportedGraph* exported, int* graphs);

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_DISPATCH_API_H_
