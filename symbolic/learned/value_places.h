// ValuePlaces: the places of a compiled object's code where captures relied on values that they read out of tensors,
// and how many different ones. Invariant: a place where the values keep changing is relied on in kMostVersions
// captures, and breaks the graph in all later ones; within one capture the answer for a value does not change.
#ifndef FRAMEFUSE_SYMBOLIC_LEARNED_VALUE_PLACES_H_
#define FRAMEFUSE_SYMBOLIC_LEARNED_VALUE_PLACES_H_

#include <Python.h>

#include <cstdint>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"

namespace framefuse {

class ValuePlaces {
 public:
  enum class Rely : std::uint8_t {
    kNever,
    kWhileFew,
    kAlways,  // there is no break to fall back to: fullgraph
  };

  // A capture of a frame begins, of one attempt or several.
  void Begin(Rely rely);
  // Whether it may rely on a value that is read at an instruction; `digest` differs for different values.
  bool MayRelyOn(PyCodeObject* code, int instruction, std::uint64_t digest);

 private:
  static constexpr int kMostVersions = 2;

  struct Place {
    absl::flat_hash_set<std::uint64_t> seen;
    int versions = 0;             // captures that met a value which none before had met
    std::int64_t newest_for = 0;  // the last of those
  };

  Rely rely_ = Rely::kNever;
  std::int64_t capture_ = 0;
  // By the code's address, which is compared and never read.
  absl::flat_hash_map<std::pair<const PyCodeObject*, int>, Place> places_;
};

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_LEARNED_VALUE_PLACES_H_
