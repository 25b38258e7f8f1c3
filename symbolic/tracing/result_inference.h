// ResultInference: the sizes, strides and dtypes of what an operator gives for fakes: by our shape functions, else by
// the kernels that torch has for metadata, else by a run on zeros. Invariant: what cannot be inferred breaks; nothing
// is guessed.
#ifndef FRAMEFUSE_SYMBOLIC_TRACING_RESULT_INFERENCE_H_
#define FRAMEFUSE_SYMBOLIC_TRACING_RESULT_INFERENCE_H_

#include <ATen/core/ivalue.h>
#include <ATen/core/stack.h>

#include <cstdint>
#include <string>
#include <unordered_map>

#include "symbolic/tracing/composite_inference.h"
#include "symbolic/tracing/node_builder.h"
#include "symbolic/tracing/op_traits.h"

namespace framefuse::tracing {

class Recorder;

struct RecorderStatistics {
  std::int64_t own_shapes = 0;
  std::int64_t cpp_meta = 0;
  std::int64_t composite_meta = 0;
  std::int64_t runs_for_metadata = 0;
  std::int64_t python_meta = 0;
  std::unordered_map<std::string, int> python_ops;  // by name, for the log
};

// Keys that must not act while a kernel is asked for metadata.
c10::DispatchKeySet KeysOffForMeta();

class ResultInference {
 public:
  Outputs Infer(Recorder& recorder, const OpTraits& traits, NodeBuilder* builder);
  const RecorderStatistics& statistics() const { return statistics_; }

 private:
  void ByKernel(Recorder& recorder, const OpTraits& traits, NodeBuilder* builder, Outputs* outputs);
  void ByMetaKernel(Recorder& recorder, const OpTraits& traits, NodeBuilder* builder, Outputs* outputs);
  void CallMetaKernel(Recorder& recorder, const OpTraits& traits, torch::jit::Stack* stack);
  // What the kernel has done to its arguments' sizes must be nothing.
  void CheckSizesKept(Recorder& recorder, const OpTraits& traits, c10::ArrayRef<c10::IValue> args,
                      const torch::jit::Stack& meta_args) const;

  CompositeInference composites_;
  RecorderStatistics statistics_;
};

}  // namespace framefuse::tracing

#endif  // FRAMEFUSE_SYMBOLIC_TRACING_RESULT_INFERENCE_H_
