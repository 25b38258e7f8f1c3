// attempt: captures one frame from where it stands into an entry. A break is found by a first attempt, which is
// dropped; a second one runs up to it and closes there (a speculation log of one line); if a live value there
// has no recipe, the break moves back.
// Invariant: leaves no trace but the entry: fakes, torch state, errors and garbage collection are as before.
#ifndef FRAMEFUSE_SYMBOLIC_ATTEMPT_ATTEMPT_H_
#define FRAMEFUSE_SYMBOLIC_ATTEMPT_ATTEMPT_H_

#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "symbolic/capture/capture.h"
#include "symbolic/entry/compiled_entry.h"
#include "symbolic/learned/dynamic_sizes.h"
#include "symbolic/learned/raising_branches.h"
#include "symbolic/learned/unbacked_places.h"
#include "symbolic/learned/value_places.h"
#include "symbolic/messages/raised.h"

namespace framefuse {

struct ExportedGraph;

struct AttemptSettings {
  bool fullgraph = false;
  std::string backend = "aten";  // a built-in one, if fx_backend is null
  std::string mode = "default";
  bool keeps_graph_text = false;
  bool tell_libraries = false;
  std::int64_t recompile_limit = -1;  // negative: the config's
  std::string name;                   // of the compiled object, for messages
  Ref fx_backend;
  ExportedGraph* exported = nullptr;  // gets the graph of each entry; null: none is exported
  std::shared_ptr<ValuePlaces> values = std::make_shared<ValuePlaces>();
  std::shared_ptr<RaisingBranches> raising = std::make_shared<RaisingBranches>();
  std::shared_ptr<UnbackedPlaces> unbacked = std::make_shared<UnbackedPlaces>();
  std::shared_ptr<DynamicSizes> sizes = std::make_shared<DynamicSizes>(DynamicMode::kNever);
};

struct AttemptResult {
  std::shared_ptr<CompiledEntry> entry;               // null: run the frame as Python
  std::optional<GraphBreakReason> broke_at;           // the break that ended (or prevented) the entry
  bool break_is_error = false;                        // the program says so there (breaks_as_errors.h)
  std::optional<Raised> raised;                       // the program raised: run it as Python, try again next time
  std::optional<GraphBreakReason> unconfirmed_error;  // the one that escaped: Python may not get it
  std::int64_t nodes = 0;                             // of the entry's graph
  std::int64_t symbols = 0;                           // the same
  bool nothing_to_do = false;                         // no tensor work from here on: not worth another attempt
  absl::Status error;                                 // a bug of ours or a backend that failed
  Ref backend_error;                                  // with `error`: what an FX backend raised
  std::int64_t instructions = 0;                      // these three: see Statistics
  std::int64_t operators = 0;
  double evaluation_seconds = 0;
  double capture_seconds = 0;
  double backend_seconds = 0;
  int attempts = 0;
};

AttemptResult CaptureFrame(PyThreadState* thread, frame_ops::Frame* frame, const AttemptSettings& settings);

// Whether this thread is inside an attempt.
bool IsCapturing();

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_ATTEMPT_ATTEMPT_H_
