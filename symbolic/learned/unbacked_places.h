// UnbackedPlaces: the places of a compiled object's code whose values of tensors its captures take for symbols that the
// graph defines (symbolic/tracing/unbacked_sizes.h), and how often what was taken for granted about them did not hold.
// Invariant: a place once refuted breaks the graph in all later captures.
#ifndef FRAMEFUSE_SYMBOLIC_LEARNED_UNBACKED_PLACES_H_
#define FRAMEFUSE_SYMBOLIC_LEARNED_UNBACKED_PLACES_H_

#include <Python.h>

#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "symbolic/messages/graph_break.h"

namespace framefuse {

// What an entry relies on about a symbol that its graph defines.
struct DeferredFact {
  std::string text;                    // "u0 <= 8 at model.py:12"
  const PyCodeObject* code = nullptr;  // where the symbol was defined: compared, never read
  int instruction = 0;
};

class UnbackedPlaces {
 public:
  // `needed_at`: where the code looked at the number, "model.py:12"; empty: nobody knows.
  void Refute(PyCodeObject* code, int instruction, const std::string& needed_at);
  // Adds it to the reason of a break where the value is read.
  void Explain(GraphBreakReason* reason) const;
  // In a call something did not hold.
  void NoteMiss(const PyCodeObject* code, int instruction) {
    if (++misses_[{code, instruction}] >= kMostMisses) any_refuted_ = true;
  }
  bool any_refuted() const { return any_refuted_; }
  bool IsRefuted(const PyCodeObject* code, int instruction) const {
    const auto it = misses_.find({code, instruction});
    return it != misses_.end() && it->second >= kMostMisses;
  }

 private:
  static constexpr int kMostMisses = 3;
  bool any_refuted_ = false;
  absl::flat_hash_map<std::pair<const PyCodeObject*, int>, int> misses_;
  absl::flat_hash_map<std::pair<std::string, int>, std::string> needed_at_;  // by file and line
};

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_LEARNED_UNBACKED_PLACES_H_
