#include "symbolic/journals/value_reads.h"

#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/pybind.h>

#include <string>
#include <utility>

#include "symbolic/journals/backward_phase.h"
#include "symbolic/journals/expected_truths.h"
#include "symbolic/journals/frame_stack.h"
#include "symbolic/journals/object_table.h"
#include "symbolic/journals/read_journal.h"

namespace framefuse {
namespace {

class GuardedRead final : public ValueFact {
 public:
  explicit GuardedRead(std::shared_ptr<const tracing::ValueRead> read) : read_(std::move(read)) {}

  bool Holds(absl::Span<PyObject* const> tensors) const noexcept override { return read_->IsSameFor(tensors); }
  std::string Expression(absl::Span<const std::string> names) const override { return read_->Expression(names); }
  std::string Failure(absl::Span<const std::string> names, absl::Span<PyObject* const> tensors) const override {
    return read_->Expression(names) + " failed: " + read_->Found(tensors);
  }

 private:
  std::shared_ptr<const tracing::ValueRead> read_;
};

}  // namespace

bool ValueReads::MayRelyOn(std::uint64_t digest) {
  if (places_ == nullptr) return false;
  const Activation* act = frames_.top();
  // A backward pass that is recorded at the close reads what its formulas saved, whose versions are watched. A backward
  // function of the program's may find its objects changed by then.
  if (act == nullptr) return places_->MayRelyOn(nullptr, 0, digest);
  if (!frames_.has_root()) return false;
  return places_->MayRelyOn(frame_ops::Code(act->frame), act->instruction, digest);
}

bool ValueReads::TakesUnbacked() {
  const Activation* act = frames_.top();
  if (unbacked_ == nullptr || act == nullptr || !frames_.has_root() || backward_.running()) return false;
  return !unbacked_->IsRefuted(frame_ops::Code(act->frame), act->instruction);
}

void ValueReads::AddedUnbacked(int symbol) {
  const Activation& act = *frames_.top();
  definitions_.push_back({symbol, frame_ops::Code(act.frame), act.instruction});
}

bool ValueReads::ExpectOfTorch(const at::Tensor& fake, bool truth) {
  const Activation* act = frames_.top();
  if (act == nullptr || !frames_.has_root()) return false;
  const pybind11::gil_scoped_acquire gil;  // operators run without
  const Ref tensor = Ref::Steal(THPVariable_Wrap(fake));
  return tensor && expected_.ExpectOfTorch(*act, tensor, truth);
}

void ValueReads::Relied(std::shared_ptr<const tracing::ValueRead> read) {
  ReadValue value;
  for (int index : read->inputs()) {
    value.sources.push_back(objects_.tensor_inputs()[static_cast<std::size_t>(index)].source);
  }
  value.fact = std::make_shared<GuardedRead>(std::move(read));
  reads_.guards().AddValue(std::move(value), frames_.Here());
}

}  // namespace framefuse
