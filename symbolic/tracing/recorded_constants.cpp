#include "symbolic/tracing/recorded_constants.h"

#include <cstring>

#include "symbolic/tracing/fake_tensor.h"
#include "symbolic/tracing/recorder.h"

namespace framefuse::tracing {

ir::ValueId RecordedConstants::AddNumber(Recorder& recorder, const at::Tensor& wrapped) {
  // The memory of a wrapped number is real; its bits identify it together with its type.
  std::uint64_t bits = 0;
  const std::size_t size = wrapped.element_size();
  const void* data = wrapped.const_data_ptr();
  if (recorder.phase() == ir::Phase::kForward && forward_numbers_.insert(data).second) kept_.push_back(wrapped);
  const bool of_formula = recorder.phase() == ir::Phase::kBackward && !forward_numbers_.contains(data);
  if (size <= sizeof(bits)) {
    std::memcpy(&bits, data, size);
    auto key = std::make_tuple(static_cast<int>(wrapped.scalar_type()), bits, of_formula);
    auto [it, inserted] = numbers_.try_emplace(key, ir::kNoValue);
    if (inserted) {
      it->second = recorder.graph().AddConstant(wrapped);
      recorder.graph().value(it->second).of_formula = of_formula;
    }
    return it->second;
  }
  return recorder.graph().AddConstant(wrapped);
}

ir::ValueId RecordedConstants::Add(Recorder& recorder, const at::Tensor& real) {
  auto [it, inserted] = by_tensor_.try_emplace(real.unsafeGetTensorImpl(), ir::kNoValue);
  if (inserted) {
    TlsScope off(nullptr);
    it->second = recorder.graph().AddConstant(real.detach());
    recorder.graph().value(it->second).storage = recorder.NewStorage();
    values_.insert(it->second);
    kept_.push_back(real);
  }
  return it->second;
}

at::Tensor RecordedConstants::FakeOf(Recorder& recorder, const at::Tensor& real) {
  const ir::ValueId value = Add(recorder, real);
  at::Tensor& fake = fakes_[real.unsafeGetTensorImpl()];
  if (!fake.defined()) {
    fake = MakeFake(MakeFakeStorage(real.device(), real.storage().sym_nbytes()), real.sym_sizes(), real.sym_strides(),
                    real.sym_storage_offset(), real.scalar_type(), real.device(), value, recorder.id());
  }
  return fake;
}

std::optional<ir::ValueId> RecordedConstants::Find(const at::Tensor& real) const {
  const auto it = by_tensor_.find(real.unsafeGetTensorImpl());
  return it == by_tensor_.end() ? std::nullopt : std::optional(it->second);
}

}  // namespace framefuse::tracing
