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
#include "symbolic/journals/symbols.h"

namespace framefuse {
namespace {

class GuardedRead final : public ValueFact {
 public:
  // A symbol stands at one of the guard's sources, which come after the tensors.
  struct Symbol {
    std::size_t at = 0;
    EntrySizes::Symbol place;
  };
  GuardedRead(std::shared_ptr<const tracing::ValueRead> read, std::vector<Symbol> symbols)
      : read_(std::move(read)), symbols_(std::move(symbols)) {}

  bool Holds(absl::Span<PyObject* const> objects) const noexcept override {
    const std::optional<std::vector<std::int64_t>> symbols = ValuesOf(objects);
    return symbols && read_->IsSameFor(Tensors(objects), *symbols);
  }
  std::string Expression(absl::Span<const std::string> names) const override {
    std::vector<std::string> texts;
    for (const Symbol& s : symbols_) texts.push_back(EntrySizes::NameOf(s.place, names[s.at]));
    return read_->Expression(names.first(read_->inputs().size()), texts);
  }
  std::string Failure(absl::Span<const std::string> names, absl::Span<PyObject* const> objects) const override {
    const std::optional<std::vector<std::int64_t>> symbols = ValuesOf(objects);
    return Expression(names) + " failed: " + (symbols ? read_->Found(Tensors(objects), *symbols) : "another type");
  }

 private:
  absl::Span<PyObject* const> Tensors(absl::Span<PyObject* const> objects) const {
    return objects.first(read_->inputs().size());
  }
  std::optional<std::vector<std::int64_t>> ValuesOf(absl::Span<PyObject* const> objects) const {
    std::vector<std::int64_t> values;
    for (const Symbol& s : symbols_) {
      const std::optional<std::int64_t> value = EntrySizes::ValueOf(s.place, objects[s.at]);
      if (!value) return std::nullopt;
      values.push_back(*value);
    }
    return values;
  }

  std::shared_ptr<const tracing::ValueRead> read_;
  std::vector<Symbol> symbols_;
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
  std::vector<GuardedRead::Symbol> places;
  for (const ir::SymbolIndex symbol : read->symbols()) {
    const EntrySizes::Symbol place = symbols_.PlaceOf(symbol, objects_.tensor_inputs());
    places.push_back({value.sources.size(), place});
    value.sources.push_back(place.source);
  }
  value.fact = std::make_shared<GuardedRead>(std::move(read), std::move(places));
  reads_.guards().AddValue(std::move(value), frames_.Here());
}

}  // namespace framefuse
