// RandomDraws: the numbers that the program draws from generators of Python's and numpy's from outside. The entry draws
// them in this order, before its plan runs, and each is a symbol that the graph defines (symbolic/tracing/
// unbacked_sizes.h): the hint is what a copy of the generator draws. Invariant: no draw of the attempt touches a
// generator of the program's, and no guard relies on what was drawn.
#ifndef FRAMEFUSE_SYMBOLIC_JOURNALS_RANDOM_DRAWS_H_
#define FRAMEFUSE_SYMBOLIC_JOURNALS_RANDOM_DRAWS_H_

#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "symbolic/evaluator/value.h"

namespace framefuse {

class BreakController;
class ObjectTable;
class ReadJournal;
struct Tracked;
namespace tracing {
class Tracer;
}

class RandomDraws {
 public:
  // `for_python`: the graph is for a callable of Python's, which is given no drawn number.
  RandomDraws(bool for_python, BreakController& breaks, ReadJournal& reads, ObjectTable& objects,
              tracing::Tracer& tracer)
      : for_python_(for_python), breaks_(breaks), reads_(reads), objects_(objects), tracer_(tracer) {}

  // Of a method of the generator's class. `args`: the generator comes first, and those with names last.
  Value Draw(BorrowedRef method, absl::Span<const ValueView> args, BorrowedRef kwnames);

  struct One {
    Ref generator;  // its representative
    Ref method;
    std::vector<Ref> args;  // numbers that change among them
    Ref kwnames;
    bool is_float = false;
    int input = 0;  // its number among the tensor inputs
  };
  const std::vector<One>& all() const { return all_; }
  bool IsDrawn(int input) const;

 private:
  bool TakeArguments(absl::Span<const ValueView> args, One* one);
  Ref TensorAtHand(Tracked& generator, const One& one, bool* is_float);

  const bool for_python_;
  BreakController& breaks_;
  ReadJournal& reads_;
  ObjectTable& objects_;
  tracing::Tracer& tracer_;
  std::vector<One> all_;
  absl::flat_hash_map<PyObject*, Ref> copies_;  // by generator, which the program holds
};

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_JOURNALS_RANDOM_DRAWS_H_
