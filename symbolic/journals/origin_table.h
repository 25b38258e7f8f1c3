// OriginTable: where in the user's program an operator is called, as the tracer asks it once an operator. A place is
// the innermost frame that is not torch's own code, with the places that called it if callers are kept (graphs for
// backends in Python, whose errors get a traceback of the program's lines).
// Invariant: a frame's code was noted when the frame was entered: At runs without the GIL and makes no objects.
#ifndef FRAMEFUSE_SYMBOLIC_JOURNALS_ORIGIN_TABLE_H_
#define FRAMEFUSE_SYMBOLIC_JOURNALS_ORIGIN_TABLE_H_

#include <cstdint>
#include <tuple>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "backends/graph/graph.h"
#include "frame_eval/ref.h"
#include "symbolic/evaluator/activation.h"

namespace framefuse {

class OriginTable {
 public:
  explicit OriginTable(bool keeps_callers) : keeps_callers_(keeps_callers) {}

  void NoteCode(PyCodeObject* code);
  // The place at which the innermost frame stands; the last one if only torch's frames are there.
  std::int32_t At(const Activation* top);
  ir::Origin Resolve(std::int32_t id) const;
  // The place after those that called it, outermost first.
  std::vector<ir::Origin> StackOf(std::int32_t id) const;

 private:
  using Place = std::tuple<PyCodeObject*, int, std::int32_t>;  // code, instruction, id of the caller's place or -1

  bool IsTorch(const Activation& act) const;
  std::int32_t Intern(const Activation* act);

  bool keeps_callers_;
  std::vector<Place> places_;  // by id
  absl::flat_hash_map<Place, std::int32_t> ids_;
  std::vector<RefOf<PyCodeObject>> codes_;
  absl::flat_hash_map<PyCodeObject*, bool> is_torch_;
};

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_JOURNALS_ORIGIN_TABLE_H_
