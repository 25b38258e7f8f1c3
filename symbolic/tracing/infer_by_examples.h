// infer_by_examples: metadata of an operator that has no shape function, on symbolic sizes. Its meta kernel runs for a
// few sets of sizes that the facts allow, and what comes out is put into expressions that fit all of them.
// Invariant: a guess. The node is marked, and whoever runs the graph with other sizes asks the kernel first
// (ir::CheckGuessed).
#ifndef FRAMEFUSE_SYMBOLIC_TRACING_INFER_BY_EXAMPLES_H_
#define FRAMEFUSE_SYMBOLIC_TRACING_INFER_BY_EXAMPLES_H_

#include "symbolic/tracing/recorder.h"

namespace framefuse::tracing {

// `node` has its arguments. False: nothing in them is symbolic, or no expressions were found.
[[nodiscard]] bool InferByExamples(Recorder& recorder, const OpTraits& traits, ir::Node* node, Outputs* outputs);

}  // namespace framefuse::tracing

#endif  // FRAMEFUSE_SYMBOLIC_TRACING_INFER_BY_EXAMPLES_H_
