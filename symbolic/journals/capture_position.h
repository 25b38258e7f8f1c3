// Where an attempt stands, where and why it broke, and how it is asked to run.
#ifndef FRAMEFUSE_SYMBOLIC_JOURNALS_CAPTURE_POSITION_H_
#define FRAMEFUSE_SYMBOLIC_JOURNALS_CAPTURE_POSITION_H_

#include <Python.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "frame_eval/ref.h"
#include "symbolic/messages/graph_break.h"

namespace framefuse {

// A place in an attempt: the number of the instruction over all activations, and what stands there.
// The re-run of an attempt checks code and offset and gives up on a mismatch (soundness rule 14).
struct CapturePosition {
  std::uint64_t executed = 0;
  RefOf<PyCodeObject> code;
  int instruction = 0;

  bool operator==(const CapturePosition& other) const {
    return executed == other.executed && code.get() == other.code.get() && instruction == other.instruction;
  }
};

struct BreakRecord {
  GraphBreakReason reason;
  CapturePosition position;
  // The same break seen from each enclosing frame, innermost first: where to stop if the chain cannot be rebuilt.
  std::vector<CapturePosition> outer_positions;
};

class DynamicSizes;
class RaisingBranches;
class UnbackedPlaces;
class ValuePlaces;

struct CaptureOptions {
  bool fx = false;               // keep the torch-level calls for an FX backend
  bool all_frames = false;       // evaluate torch's frames between a module's call and its forward() in any case
  bool tell_libraries = false;   // installed packages' code hears that it is captured
  bool breaks_at_modes = false;  // do not take torch function modes that the program pushes
  absl::Span<const RefOf<PyCodeObject>> inlined;  // torch's functions that do not run as one call
  const RaisingBranches* warning = nullptr;       // where a warning is not said behind the graph; null: nowhere
  std::int64_t break_at = -1;     // testing: force a break before this instruction of the attempt, counted from 0
  ValuePlaces* values = nullptr;  // where values of tensors may be relied on; null: nowhere
  const RaisingBranches* raising = nullptr;  // null: no branch is expected to go the way that does not raise
  bool looks_at_end = true;                  // at what such a branch tests, on the CPU
  const DynamicSizes* sizes = nullptr;       // which sizes are symbolic; null: none
  const UnbackedPlaces* unbacked = nullptr;  // where values of tensors may become symbols; null: nowhere
  std::string why_left;                      // the whole frame is left to Python, for a checkpoint; empty: it is not
  int refused_node = -1;                     // the node of the recording before which the graph ends
  std::string why_refused = "it has no form in a graph for an FX backend";
};

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_JOURNALS_CAPTURE_POSITION_H_
