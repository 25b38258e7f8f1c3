#include "symbolic/tracing/traced_sizes.h"

#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>
#include <optional>

#include "symbolic/tracing/input_sizes.h"
#include "symbolic/tracing/recorder.h"
#include "symbolic/tracing/sizes.h"
#include "symbolic/tracing/unbacked_sizes.h"

namespace framefuse::tracing {

Ref TracedSizes::MakeNumber(BorrowedRef original) {
  const auto is_number = [](const SizeSymbol& s) { return s.input_index == kIsNumberSymbol; };
  const auto count = std::count_if(symbols_.begin(), symbols_.end(), is_number);
  Sizes& sizes = recorder_->sizes();
  const bool is_int = PyIndex_Check(original.get()) != 0;  // of numpy's types, too
  const Ref plain = Ref::Steal(is_int ? PyNumber_Index(original) : PyNumber_Float(original));
  if (!plain) return Ref();
  const ir::Dim number =
      is_int ? sizes.NewNumber(PyLong_AsLongLong(plain)) : sizes.NewFloat(PyFloat_AS_DOUBLE(plain.get()));
  symbols_.push_back({kIsNumberSymbol, static_cast<int>(count)});
  return numbers_.MakeOf(original, number);
}

Ref TracedSizes::UnbackedNumbersOf(BorrowedRef fake) {
  const at::Tensor& t = THPVariable_Unpack(fake.get());
  const bool one = t.dim() == 0 || (t.dim() > 1 && t.sym_numel().maybe_as_int() == 1);
  if (t.dim() > 1 && !one) return Ref();
  const std::optional<std::vector<ir::Dim>> numbers = UnbackedNumbers(*recorder_, t);
  if (!numbers) return Ref();
  if (one) return numbers_.Make(numbers->front());
  Ref list = Ref::Steal(PyList_New(0));
  for (const ir::Dim number : *numbers) {
    const Ref item = numbers_.Make(number);
    if (!item || PyList_Append(list, item) < 0) return Ref();
  }
  return list;
}

bool TracedSizes::DeferTruth(BorrowedRef fake, bool truth) {
  return RecordTruth(*recorder_, THPVariable_Unpack(fake.get()), truth);
}

const std::vector<ir::Dim>& TracedSizes::facts() const { return recorder_->sizes().facts(); }
const ir::ExprTable& TracedSizes::expressions() const { return recorder_->sizes().Table(); }
bool TracedSizes::any() const { return recorder_->sizes().any(); }
bool TracedSizes::Fit() const { return recorder_->sizes().Fit(); }
const std::vector<int>& TracedSizes::pinned_unbacked() const { return recorder_->sizes().pinned_unbacked(); }
void TracedSizes::SetListener(SizeListener* listener) { recorder_->sizes().set_listener(listener); }

bool TracedSizes::TakesUnbacked() const {
  return recorder_->values() != nullptr && recorder_->values()->TakesUnbacked();
}

void TracedSizes::AddOfInput(int input_index, const InputSizes& own) {
  for (const auto& [d, of_stride] : own.symbols) symbols_.push_back({input_index, d, of_stride});
  for (const auto& [d, stride] : own.strides) strides_.push_back({input_index, d, stride});
}

}  // namespace framefuse::tracing
