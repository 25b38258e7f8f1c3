// ExportedGraph: what framefuse.export takes of a capture: the graph as it was recorded, the tensors that it was given
// and gave, and what the entry would check before it runs. Invariant: what a package could not check or do is a
// refusal.
#ifndef FRAMEFUSE_SYMBOLIC_ATTEMPT_EXPORTED_GRAPH_H_
#define FRAMEFUSE_SYMBOLIC_ATTEMPT_EXPORTED_GRAPH_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "symbolic/entry/compiled_entry.h"

namespace framefuse {

class Capture;
struct Closed;

struct ExportedGraph {
  struct Symbol {
    std::string name;
    Ref tensor;  // whose size it is; null: the graph computes it
    int dim = 0;
  };
  std::string text;
  std::vector<int> guessed;  // nodes (ir::Node::guessed)
  std::vector<Symbol> symbols;
  std::vector<std::string> facts;     // what sizes must meet, as the graph's text has conditions
  std::vector<std::string> deferred;  // the same of sizes that the graph computes
  // Tensors that were found to be one object, or two; one without another is or is not a certain object.
  std::vector<std::pair<Ref, Ref>> compared;
  std::vector<std::string> refusals;  // sentences
  std::string guards;                 // a readable Python function
  std::vector<Ref> inputs, outputs;   // of the run behind the capture, in the graph's order
  int runs = 0;

  // Before a backend gets the graph; the entry has its guards.
  void Take(Capture& capture, const Closed& closed);
  // The same work, whose inputs and outputs come here. This must live longer.
  std::shared_ptr<TensorWork> Watch(std::shared_ptr<TensorWork> work);
};

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_ATTEMPT_EXPORTED_GRAPH_H_
