#include "symbolic/tracing/value_reads.h"

#include <ATen/ops/empty.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

#include "absl/hash/hash.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "backends/graph/operators.h"
#include "backends/graph/recording_probe.h"
#include "symbolic/tracing/autograd_bridge.h"
#include "symbolic/tracing/expected_checks.h"
#include "symbolic/tracing/recorded_values.h"
#include "symbolic/tracing/relied_sizes.h"
#include "symbolic/tracing/state.h"
#include "symbolic/tracing/value_slice.h"

namespace framefuse::tracing {
namespace {

constexpr std::int64_t kMostElements = 1 << 24;
constexpr std::int64_t kMostCopied = 1 << 12;
constexpr std::int64_t kMostKept = 64;
constexpr std::size_t kMostNodesOfData = 16;
constexpr std::int64_t kMostShown = 8;
constexpr std::size_t kMostNodesOfHint = 1 << 14;
constexpr std::int64_t kMostElementsOfHint = std::int64_t{1} << 31;

using Values = std::vector<at::Tensor>;

// What the values are, and what is observed of them; nullopt: it cannot be computed.
struct Computed {
  Values values;
  at::Tensor observed;

  // A view of an input would change with the input.
  void MakeOwn(const Values& inputs) {
    const auto own = [&](at::Tensor& t) {
      const auto shares = [&](const at::Tensor& input) { return t.has_storage() && t.is_alias_of(input); };
      if (std::any_of(inputs.begin(), inputs.end(), shares)) t = t.clone();
    };
    std::for_each(values.begin(), values.end(), own);
    own(observed);
  }
};
std::optional<Computed> Compute(const ValueSlice& slice, const Observation& observation, const Values& inputs,
                                absl::Span<const std::int64_t> symbols, bool own) {
  const bool on_cpu = std::all_of(inputs.begin(), inputs.end(), [](const at::Tensor& t) { return t.is_cpu(); });
  if (!on_cpu && IsStreamRecorded()) return std::nullopt;  // waiting for the device would end the recording
  using c10::DispatchKey;
  const TlsScope off(nullptr);
  const c10::impl::ExcludeDispatchKeyGuard plain(
      KeysOffForMeta() |
      c10::DispatchKeySet({DispatchKey::FuncTorchDynamicLayerFrontMode, DispatchKey::FuncTorchVmapMode,
                           DispatchKey::FuncTorchDynamicLayerBackMode, DispatchKey::PythonDispatcher}));
  try {
    std::optional<Values> values = slice.Run(inputs, symbols);
    if (!values) return std::nullopt;
    at::Tensor observed = observation.of(*values).cpu().contiguous();
    Computed now{*std::move(values), std::move(observed)};
    if (own) now.MakeOwn(inputs);
    return now;
  } catch (const c10::Error&) {
    return std::nullopt;
  }
}

std::string_view BytesOf(const at::Tensor& t) {
  return {static_cast<const char*>(t.const_data_ptr()), static_cast<std::size_t>(t.nbytes())};
}

std::string TextOf(const at::Tensor& value) {
  if (value.numel() > kMostShown) return absl::StrCat("<", value.numel(), " values>");
  std::vector<std::string> items;
  const at::Tensor flat = value.reshape({-1});
  for (std::int64_t i = 0; i < flat.numel(); ++i) {
    const c10::Scalar s = flat[i].item();
    items.push_back(s.isBoolean()         ? (s.toBool() ? "True" : "False")
                    : s.isFloatingPoint() ? absl::StrCat(s.toDouble())
                                          : absl::StrCat(s.toLong()));
  }
  return value.dim() == 0 ? items[0] : absl::StrCat("[", absl::StrJoin(items, ", "), "]");
}

class SlicedValue final : public ValueRead {
 public:
  SlicedValue(ValueSlice slice, Observation observation, std::vector<int> inputs, at::Tensor expected)
      : slice_(std::move(slice)),
        observation_(std::move(observation)),
        inputs_(std::move(inputs)),
        expected_(std::move(expected)) {}

  const std::vector<int>& inputs() const override { return inputs_; }
  const std::vector<ir::SymbolIndex>& symbols() const override { return slice_.symbols(); }

  bool IsSameFor(absl::Span<PyObject* const> tensors, absl::Span<const std::int64_t> symbols) const noexcept override {
    const std::optional<at::Tensor> now = Now(tensors, symbols);
    return now && now->sizes() == expected_.sizes() && now->scalar_type() == expected_.scalar_type() &&
           BytesOf(*now) == BytesOf(expected_);
  }

  std::string Expression(absl::Span<const std::string> names,
                         absl::Span<const std::string> symbol_names) const override {
    const TlsScope off(nullptr);
    std::vector<std::string> values;
    for (std::size_t i = 0; i < slice_.size(); ++i) values.push_back(slice_.Expression(i, names, symbol_names));
    const std::string value = absl::StrJoin(values, ", ");
    if (!observation_.text.empty()) return absl::StrCat(observation_.text, "(", value, ") == ", TextOf(expected_));
    return absl::StrCat(value, expected_.dim() == 0 ? " == " : ".flatten().tolist() == ", TextOf(expected_));
  }

  std::string Found(absl::Span<PyObject* const> tensors, absl::Span<const std::int64_t> symbols) const override {
    const TlsScope off(nullptr);
    const std::optional<at::Tensor> now = Now(tensors, symbols);
    return now ? TextOf(*now) : "it cannot be computed here";
  }

 private:
  std::optional<at::Tensor> Now(absl::Span<PyObject* const> tensors, absl::Span<const std::int64_t> symbols) const {
    Values inputs;
    for (PyObject* t : tensors) {
      if (t == nullptr || !THPVariable_Check(t)) return std::nullopt;
      inputs.push_back(THPVariable_Unpack(t));
    }
    std::optional<Computed> now = Compute(slice_, observation_, inputs, symbols, /*own=*/false);
    return now ? std::optional<at::Tensor>(std::move(now->observed)) : std::nullopt;
  }

  ValueSlice slice_;
  Observation observation_;
  std::vector<int> inputs_;
  at::Tensor expected_;
};

// Whether a value is one truth, of which there are two.
bool IsTruth(const Values& fakes, const Observation& observation) {
  return observation.text.empty() && fakes.size() == 1 && fakes[0].scalar_type() == c10::ScalarType::Bool &&
         fakes[0].sym_numel().maybe_as_int() == 1;
}
// Numbers that the program keeps where Python reads them: the count of an optimizer's steps.
bool IsKeptNumber(const at::Tensor& t) { return t.is_cpu() && t.dim() == 0 && t.is_floating_point(); }
bool AreFewNumbers(const at::Tensor& t) { return t.is_cpu() && t.numel() <= kMostKept && t.is_floating_point(); }
bool IsWholeNumbers(const at::Tensor& t) { return c10::isIntegralType(t.scalar_type(), /*includeBool=*/true); }

using enum ir::OpName;
constexpr ir::OpNames kTests{kAll, kAllDim, kAllDims, kAny, kAnyDim, kAnyDims};
constexpr ir::OpNames kTurns{kLogicalNot, kBitwiseNot};

// What says whether all or any of something are true, and `v` with it; null: nothing does.
const ir::Node* TestOfAll(const ir::Graph& graph, ir::ValueId v) {
  while (const ir::Node* n = MakerOf(graph, v)) {
    if (kTests.contains(n->op)) return n;
    if (!kTurns.contains(n->op) || n->args.empty() || n->args[0].kind != ir::Arg::Kind::kValue) return nullptr;
    v = n->args[0].value;
  }
  return nullptr;
}

// Whether the same place tested before what follows from less, as a loop does that changes what it tests.
bool Grows(const ir::Graph& graph, const ir::Node& test, std::size_t nodes, const SliceLimits& limits) {
  for (const ir::Node& n : graph.nodes) {
    if (&n == &test || n.origin < 0 || n.origin != test.origin || n.op != test.op) continue;
    const std::optional<ValueSlice> first = ValueSlice::Of(graph, {n.outputs[0]}, limits);
    return !first || first->nodes() < nodes;
  }
  return false;
}

std::optional<std::vector<ir::ValueId>> ValuesOf(const Recorder& recorder, const Values& fakes) {
  std::vector<ir::ValueId> values;
  for (const at::Tensor& fake : fakes) {
    const FakeImpl* impl = AsFake(fake);
    if (impl == nullptr || impl->recording() != recorder.id() || fake.is_conj() || fake.is_neg()) return std::nullopt;
    values.push_back(impl->value());
  }
  return values;
}

}  // namespace

std::optional<Values> Tracer::State::RelyOn(const Values& fakes, const Observation& observation) {
  const std::optional<std::vector<ir::ValueId>> wanted = ValuesOf(*recorder, fakes);
  if (!wanted) return std::nullopt;
  const ir::Node* test = nullptr;
  if (IsTruth(fakes, observation) && takes_data) test = TestOfAll(recorder->graph(), wanted->front());
  const auto is_too_much = [&](std::size_t nodes, const SliceLimits& limits) {
    return nodes > kMostNodesOfData || Grows(recorder->graph(), *test, nodes, limits);
  };
  const Truth truth{IsTruth(fakes, observation), test != nullptr, is_too_much};
  return Rely(*wanted, observation, truth);
}

std::optional<bool> Tracer::State::RelyOnTruthOfAll(const Values& fakes, const Observation& observation) {
  const std::optional<std::vector<ir::ValueId>> wanted = ValuesOf(*recorder, fakes);
  if (!wanted) return std::nullopt;
  const std::int32_t here = OfOp();
  std::size_t tested = 0;
  const auto is_too_much = [&](std::size_t nodes, const SliceLimits&) {
    const auto first = tests_of_all.find(here);
    tested = nodes;
    return nodes > kMostNodesOfData || (first != tests_of_all.end() && first->second < nodes);
  };
  const std::optional<Values> values = Rely(*wanted, observation, {true, true, is_too_much});
  if (!values) return std::nullopt;
  tests_of_all.try_emplace(here, tested);
  const TlsScope off(nullptr);
  return observation.of(*values).item<bool>();
}

std::optional<Values> Tracer::State::Rely(const std::vector<ir::ValueId>& wanted, const Observation& observation,
                                          const Truth& truth) {
  if (value_reader == nullptr || recorder->branches().any_open()) return std::nullopt;
  const auto record_of = [&](ir::ValueId v) {
    return std::find_if(inputs.begin(), inputs.end(), [&](const InputRecord& r) { return r.value == v; });
  };
  SliceLimits limits;
  limits.most_elements = kMostElements;
  limits.on_cpu = false;
  for (const InputRecord& r : inputs) limits.inputs.push_back(r.value);
  limits.most_copied = kMostCopied;
  const bool of_data = truth.is_one && takes_data && CurrentBackwardName().empty();  // torch's formulas do without
  bool any_data = false;                                                             // of floating point
  limits.takes_input = [&](ir::ValueId v) {
    const auto record = record_of(v);
    if (record == inputs.end() || record->input_index < 0 || record->role == InputRole::kDrawn) return false;
    if (IsWholeNumbers(record->real) || (truth.is_one && IsKeptNumber(record->real))) return true;
    if (of_data && record->role != InputRole::kArgument && AreFewNumbers(record->real)) return true;
    any_data = true;
    return of_data && truth.of_all;
  };
  limits.takes_symbol = [&](ir::SymbolIndex s) {
    return sizes.symbols()[static_cast<std::size_t>(s)].input_index != kIsUnbackedSymbol;
  };
  std::optional<ValueSlice> slice = ValueSlice::Of(recorder->graph(), wanted, limits);
  if (!slice || (any_data && truth.is_too_much(slice->nodes(), limits))) return std::nullopt;
  Values reals;
  std::vector<int> indexes;
  for (ir::ValueId v : slice->inputs()) {
    reals.push_back(record_of(v)->real);
    indexes.push_back(record_of(v)->input_index);
  }
  std::vector<std::int64_t> hints;
  for (const ir::SymbolIndex s : slice->symbols()) {
    hints.push_back(recorder->graph().exprs.symbols()[static_cast<std::size_t>(s)].hint);
  }
  std::optional<Computed> now = Compute(*slice, observation, reals, hints, /*own=*/true);
  if (!now || !value_reader->MayRelyOn(absl::HashOf(BytesOf(now->observed)))) return std::nullopt;
  if (!indexes.empty() || !hints.empty()) {
    value_reader->Relied(
        std::make_shared<SlicedValue>(*std::move(slice), observation, std::move(indexes), now->observed));
  }
  return std::move(now->values);
}

std::optional<at::Tensor> Tracer::State::RelyOnNoData(const at::Tensor& fake) {
  const bool before = std::exchange(takes_data, false);
  std::optional<at::Tensor> known = RelyOnValue(recorder->values(), fake);
  takes_data = before;
  return known;
}

bool Tracer::State::TakesUnbacked() {
  return value_reader != nullptr && !recorder->branches().any_open() && recorder->phase() == ir::Phase::kForward &&
         value_reader->TakesUnbacked();
}

bool Tracer::State::ChecksUnbacked() { return value_reader != nullptr && value_reader->ChecksUnbacked(); }

std::optional<Values> Tracer::State::AtHand(const Values& fakes) {
  const std::optional<std::vector<ir::ValueId>> wanted = ValuesOf(*recorder, fakes);
  if (!wanted) return std::nullopt;
  SliceLimits limits;
  limits.for_hint = true;
  limits.most_nodes = kMostNodesOfHint;
  limits.most_elements = kMostElementsOfHint;
  for (const InputRecord& r : inputs) limits.inputs.push_back(r.value);
  limits.most_copied = kMostElementsOfHint;
  limits.on_cpu = false;
  Values reals;
  limits.takes_input = [&](ir::ValueId v) {
    return std::any_of(inputs.begin(), inputs.end(), [&](const InputRecord& r) { return r.value == v; });
  };
  const std::optional<ValueSlice> slice = ValueSlice::Of(recorder->graph(), *wanted, limits);
  if (!slice) return std::nullopt;
  for (ir::ValueId v : slice->inputs()) {
    reals.push_back(
        std::find_if(inputs.begin(), inputs.end(), [&](const InputRecord& r) { return r.value == v; })->real);
  }
  const Observation nothing{"", [](const Values&) { return at::empty({0}); }};
  std::optional<Computed> now = Compute(*slice, nothing, reals, {}, /*own=*/true);
  return now ? std::optional<Values>(std::move(now->values)) : std::nullopt;
}

void Tracer::State::AddedUnbacked() {
  value_reader->AddedUnbacked(static_cast<int>(sizes.symbols().size()));
  sizes.AddUnbacked();
}

bool Tracer::State::ExpectOfTorch(const at::Tensor& fake, bool truth) {
  auto* reader = dynamic_cast<CheckReader*>(value_reader);
  return reader != nullptr && !recorder->branches().any_open() && recorder->phase() == ir::Phase::kForward &&
         reader->ExpectOfTorch(fake, truth);
}

std::optional<bool> RelyOnTruthOfAll(const Recorder& recorder, const Values& fakes, const Observation& truth) {
  auto* source = dynamic_cast<TruthSource*>(recorder.values());
  return source != nullptr ? source->RelyOnTruthOfAll(fakes, truth) : std::nullopt;
}

bool ExpectOfTorch(const Recorder& recorder, const at::Tensor& fake, bool truth) {
  auto* reader = dynamic_cast<CheckReader*>(recorder.values());
  return reader != nullptr && reader->ExpectOfTorch(fake, truth);
}

}  // namespace framefuse::tracing
