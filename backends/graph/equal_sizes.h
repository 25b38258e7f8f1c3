// equal_sizes: what facts say is equal becomes one expression in a graph: of s0 == s1 it knows only s0.
// Invariant: the graph's expressions are those that it uses, in normal form, so that equal sizes are equal Dims.
#ifndef FRAMEFUSE_BACKENDS_GRAPH_EQUAL_SIZES_H_
#define FRAMEFUSE_BACKENDS_GRAPH_EQUAL_SIZES_H_

#include "absl/types/span.h"
#include "backends/graph/graph.h"

namespace framefuse::ir {

// `facts`: conditions of the graph's table, which hold in each call. Symbols keep their numbers.
void JoinEqualSizes(Graph& graph, absl::Span<const Dim> facts);

// Integer symbols become these numbers; floats stay.
void SetIntegers(Graph& graph, absl::Span<const std::int64_t> symbols);

}  // namespace framefuse::ir

#endif  // FRAMEFUSE_BACKENDS_GRAPH_EQUAL_SIZES_H_
