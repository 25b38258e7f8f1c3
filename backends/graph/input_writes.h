// Writes of inputs before an operator that may raise, and the memory that is kept to take them back.
// Where an operator raises after another has written an input, eager has run the program's handlers and effects in
// between: the frame must run as Python, from inputs as they were.
#ifndef FRAMEFUSE_BACKENDS_GRAPH_INPUT_WRITES_H_
#define FRAMEFUSE_BACKENDS_GRAPH_INPUT_WRITES_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "backends/graph/graph.h"

namespace framefuse::ir {

// Whether a node may raise when the graph runs, though it did not when it was recorded: for values that it reads, or
// for what no kernel for metadata asks.
bool MayRaise(const Graph& graph, const Node& node);

// Whether a node of a recorded graph writes memory of that storage.
bool Writes(const Graph& graph, const Node& node, StorageId storage);

struct InputWrite {
  int first_node = 0;   // that writes the input
  bool kept = false;    // an operator that may raise comes after it, or is it: what it writes is to be kept
  bool raises = false;  // an operator may raise, before it or after
  bool whole = false;   // elements of the input's memory that are not its own may be written
};
// The writes of an input with that storage, in a graph whose nodes write inputs themselves.
InputWrite WriteOf(const Graph& graph, StorageId storage);

// Whether an operator writes an input behind the last one of which the backward reads a result. What stops when all is
// saved has then not written it in eager.
bool WritesBehindLastSaved(const Graph& graph);

// Where a derivative comes to what has that storage, among the writes that count but leave no history. Eager makes the
// history of a view anew behind each: what is computed from it then leads to another node than before.
struct RenewedReads {
  bool behind = false;     // all are behind the last such write
  int behind_a_read = -1;  // the first such write behind one of them
  int part_at = -1;        // the same; -1: all lead to the first history, or all to the last
};
RenewedReads RenewedReadsOf(const Graph& graph, StorageId storage);

// Whether the backward of such a graph reads that storage as the last write left it: in eager it is saved, and a later
// write is noticed.
bool BackwardReads(const Graph& graph, StorageId storage);

// By input: whether the graph writes it and the backward reads that.
std::vector<bool> WrittenAndRead(const Graph& graph);
// The sequence numbers of nodes of autograd.Functions: they take what they have saved as it is, be it detached in
// place.
std::vector<std::int64_t> TurnsOfFunctions(const Graph& joint);
// What of an input the backward reads: a view that the forward made keeps the memory that there was where the program
// replaces the input's data.
struct InputReads {
  bool itself = false;  // by a node of torch's own, which refuses one that was detached in place
  bool view = false;
  std::vector<std::int64_t> itself_by{};  // the sequence numbers of those nodes
};
std::vector<InputReads> ReadsOfInputs(const Graph& graph);

// By output: of the nodes of eager's that have saved the result itself as their argument, the sequence numbers. Not of
// the one that it was made by.
std::vector<std::vector<std::int64_t>> SavedByOthers(const Graph& graph);

// A strided tensor's memory and version as they are now. Neither keeping nor putting back counts as a write.
class KeptMemory {
 public:
  KeptMemory(const at::Tensor& t, bool whole);
  void PutBack() const;

 private:
  at::Tensor tensor_, memory_, copy_;
  std::int64_t version_ = 0;  // of a tensor that is no inference tensor
};

}  // namespace framefuse::ir

#endif  // FRAMEFUSE_BACKENDS_GRAPH_INPUT_WRITES_H_
