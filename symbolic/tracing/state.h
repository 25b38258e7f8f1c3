// The inside of Tracer: what is remembered of each input, and the steps of Close.
#ifndef FRAMEFUSE_SYMBOLIC_TRACING_STATE_H_
#define FRAMEFUSE_SYMBOLIC_TRACING_STATE_H_

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/functional/function_ref.h"
#include "symbolic/tracing/expected_checks.h"
#include "symbolic/tracing/recorder.h"
#include "symbolic/tracing/traced_sizes.h"
#include "symbolic/tracing/tracer.h"
#include "symbolic/tracing/truths_of_all.h"
#include "symbolic/tracing/value_reads.h"
#include "symbolic/tracing/value_slice.h"

namespace framefuse::tracing {

// An input and how its fake looked at entry, to find what the program changed (soundness rule 9).
struct InputRecord {
  at::Tensor real;
  at::Tensor fake;
  at::Tensor history;  // of an input that is no leaf: where its gradient is asked for
  Ref python;          // the fake's Python object
  ir::ValueId value = ir::kNoValue;
  InputRole role = InputRole::kArgument;
  std::string name;
  int input_index = -1;
  int gradient_of = -1;  // record whose `.grad` this is
  int gradient = -1;     // record of its own `.grad`, -1: undefined at entry
  std::uint32_t version = 0;
  bool requires_grad = false;
  bool asked_for_grad = false;  // by requires_grad_() in the program
  bool storage_read = false;    // how large its storage is matters
  const void* gradient_function = nullptr;
  const c10::StorageImpl* storage = nullptr;
};

struct SharedStorage {
  c10::Storage fake;
  ir::StorageId id = -1;
};

struct Tracer::State final : OpOrigins, ValueSource, CheckReader, TruthSource {
  std::unique_ptr<Recorder> recorder = std::make_unique<Recorder>(this);
  std::vector<std::unique_ptr<TlsScope>> scopes;
  OriginProvider* origins = nullptr;
  bool leaves_read = false;
  ValueReader* value_reader = nullptr;
  bool takes_data = true;  // truths that data of floating point decide may be relied on
  std::unordered_map<std::int32_t, std::size_t> tests_of_all;  // by operators that answer: operators behind the first
  std::vector<InputRecord> inputs;
  std::unordered_map<const c10::TensorImpl*, int> by_real;
  std::unordered_map<const c10::TensorImpl*, int> by_fake;
  std::unordered_map<const c10::StorageImpl*, SharedStorage> storages;
  TracedSizes sizes{recorder};
  // Of deep copies: what was copied of each storage.
  std::unordered_map<ir::StorageId, const c10::TensorImpl*> deep_copied;
  std::vector<Ref> constants;  // Python objects of constants' fakes
  // Origin of forward operators by the sequence number of their autograd node.
  std::unordered_map<std::int64_t, std::int32_t> origin_of_sequence;

  absl::StatusOr<int> AddInput(const at::Tensor& real, InputRole role, int input_index, std::string_view name,
                               SymbolicDims symbolic = {});
  // value_reads.cpp
  // Not on what data of floating point decide, where another way to go on is looked for first.
  std::optional<at::Tensor> RelyOnNoData(const at::Tensor& fake);
  std::optional<std::vector<at::Tensor>> RelyOn(const std::vector<at::Tensor>& fakes,
                                                const Observation& observed) override;
  std::optional<bool> RelyOnTruthOfAll(const std::vector<at::Tensor>& fakes, const Observation& truth) override;
  // What is observed of some values.
  struct Truth {
    bool is_one = false;  // of which there are two
    bool of_all = false;  // and it says of all or any of the data that they pass a test
    absl::FunctionRef<bool(std::size_t nodes, const SliceLimits& limits)> is_too_much;  // of data
  };
  std::optional<std::vector<at::Tensor>> Rely(const std::vector<ir::ValueId>& wanted, const Observation& observed,
                                              const Truth& truth);
  bool TakesUnbacked() override;
  bool ChecksUnbacked() override;
  std::optional<std::vector<at::Tensor>> AtHand(const std::vector<at::Tensor>& fakes) override;
  void AddedUnbacked() override;
  bool ExpectOfTorch(const at::Tensor& fake, bool truth) override;
  std::int32_t OfOp() override;
};

// Numbers of call sites become rows of the graph's table, each once; without a provider there are none (origins.cpp).
// Returns the provider's ids, by node.
std::vector<std::int32_t> ResolveOrigins(ir::Graph& graph, OriginProvider* origins);

// Ends a recording (close.cpp). What is `of_functions`, an autograd.Function's, becomes a hidden result.
absl::StatusOr<TracedGraph> CloseRecording(Recorder& recorder, std::vector<InputRecord>& inputs,
                                           std::vector<at::Tensor> outputs, absl::Span<const at::Tensor> of_functions,
                                           bool for_backward, OriginProvider* origins);

}  // namespace framefuse::tracing

#endif  // FRAMEFUSE_SYMBOLIC_TRACING_STATE_H_
