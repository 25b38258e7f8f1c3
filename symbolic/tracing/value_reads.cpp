#include "symbolic/tracing/value_reads.h"

#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

#include "absl/hash/hash.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "backends/graph/recording_probe.h"
#include "symbolic/tracing/state.h"
#include "symbolic/tracing/value_slice.h"

namespace framefuse::tracing {
namespace {

constexpr std::int64_t kMostElements = 1 << 24;
constexpr std::int64_t kMostShown = 8;

// The value on the CPU; nullopt: it cannot be computed. `kept`: in memory of its own, for a view of an input would
// change with the input.
std::optional<at::Tensor> Compute(const ValueSlice& slice, absl::Span<const at::Tensor> inputs, bool kept) {
  const bool on_cpu = std::all_of(inputs.begin(), inputs.end(), [](const at::Tensor& t) { return t.is_cpu(); });
  if (!on_cpu && IsStreamRecorded()) return std::nullopt;  // waiting for the device would end the recording
  using c10::DispatchKey;
  const TlsScope off(nullptr);
  const c10::impl::ExcludeDispatchKeyGuard plain(
      KeysOffForMeta() |
      c10::DispatchKeySet({DispatchKey::FuncTorchDynamicLayerFrontMode, DispatchKey::FuncTorchVmapMode,
                           DispatchKey::FuncTorchDynamicLayerBackMode, DispatchKey::PythonDispatcher}));
  try {
    std::optional<std::vector<at::Tensor>> values = slice.Run(inputs);
    if (!values) return std::nullopt;
    const at::Tensor value = values->front().cpu().contiguous();
    return kept ? value.clone() : value;
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
    items.push_back(s.isBoolean()          ? (s.toBool() ? "True" : "False")
                    : s.isFloatingPoint() ? absl::StrCat(s.toDouble())
                                          : absl::StrCat(s.toLong()));
  }
  return value.dim() == 0 ? items[0] : absl::StrCat("[", absl::StrJoin(items, ", "), "]");
}

class SlicedValue final : public ValueRead {
 public:
  SlicedValue(ValueSlice slice, std::vector<int> inputs, at::Tensor expected)
      : slice_(std::move(slice)), inputs_(std::move(inputs)), expected_(std::move(expected)) {}

  const std::vector<int>& inputs() const override { return inputs_; }

  bool IsSameFor(absl::Span<PyObject* const> tensors) const noexcept override {
    const std::optional<at::Tensor> now = Now(tensors);
    return now && now->sizes() == expected_.sizes() && now->scalar_type() == expected_.scalar_type() &&
           BytesOf(*now) == BytesOf(expected_);
  }

  std::string Expression(absl::Span<const std::string> names) const override {
    const TlsScope off(nullptr);
    return absl::StrCat(slice_.Expression(0, names), expected_.dim() == 0 ? " == " : ".flatten().tolist() == ",
                        TextOf(expected_));
  }

  std::string Found(absl::Span<PyObject* const> tensors) const override {
    const TlsScope off(nullptr);
    const std::optional<at::Tensor> now = Now(tensors);
    return now ? TextOf(*now) : "it cannot be computed here";
  }

 private:
  std::optional<at::Tensor> Now(absl::Span<PyObject* const> tensors) const {
    std::vector<at::Tensor> inputs;
    for (PyObject* t : tensors) {
      if (t == nullptr || !THPVariable_Check(t)) return std::nullopt;
      inputs.push_back(THPVariable_Unpack(t));
    }
    return Compute(slice_, inputs, /*kept=*/false);
  }

  ValueSlice slice_;
  std::vector<int> inputs_;
  at::Tensor expected_;
};

bool IsWholeNumbers(const at::Tensor& t) { return c10::isIntegralType(t.scalar_type(), /*includeBool=*/true); }

}  // namespace

std::optional<at::Tensor> Tracer::State::RelyOn(const at::Tensor& fake) {
  const FakeImpl* impl = AsFake(fake);
  if (value_reader == nullptr || impl == nullptr || impl->recording() != recorder->id() ||
      recorder->phase != ir::Phase::kForward || !recorder->open_branches.empty() || fake.is_conj() || fake.is_neg()) {
    return std::nullopt;
  }
  const auto record_of = [&](ir::ValueId v) {
    return std::find_if(inputs.begin(), inputs.end(), [&](const InputRecord& r) { return r.value == v; });
  };
  SliceLimits limits;
  limits.most_elements = kMostElements;
  limits.on_cpu = false;
  limits.takes_input = [&](ir::ValueId v) {
    const auto record = record_of(v);
    return record != inputs.end() && record->input_index >= 0 && IsWholeNumbers(record->real);
  };
  std::optional<ValueSlice> slice = ValueSlice::Of(recorder->graph(), {impl->value()}, limits);
  if (!slice) return std::nullopt;
  std::vector<at::Tensor> tensors;
  std::vector<int> indexes;
  for (ir::ValueId v : slice->inputs()) {
    tensors.push_back(record_of(v)->real);
    indexes.push_back(record_of(v)->input_index);
  }
  std::optional<at::Tensor> value = Compute(*slice, tensors, /*kept=*/true);
  if (!value || !value_reader->MayRelyOn(absl::HashOf(BytesOf(*value)))) return std::nullopt;
  value_reader->Relied(std::make_shared<SlicedValue>(*std::move(slice), std::move(indexes), *value));
  return value;
}

}  // namespace framefuse::tracing
