#include "symbolic/journals/array_inputs.h"

#include <c10/core/InferenceMode.h>

#include <algorithm>

#include "symbolic/journals/journals.h"
#include "symbolic/journals/made_array.h"
#include "symbolic/rules/number_arrays.h"

namespace framefuse {

ArrayInputs::ArrayInputs(Journals& journals)
    : options_(journals.options()),
      frames_(journals.frames()),
      backward_(journals.backward()),
      reads_(journals.reads()),
      objects_(journals.objects()),
      symbols_(journals.symbols()) {}

void ArrayInputs::Take(ValueView operand) {
  PyObject* o = operand.object.get();
  if (!PyList_CheckExact(o) && !PyTuple_CheckExact(o)) return TakeOne(operand.object);
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(o); ++i) TakeOne(PySequence_Fast_GET_ITEM(o, i));
}

void ArrayInputs::TakeOne(BorrowedRef array) {
  if (!IsArray(array) || backward_.running() || c10::InferenceMode::is_enabled()) return;
  Tracked* t = objects_.Find(array);
  if (t == nullptr || t->is_empty_array() || t->source == kNoSource || !HasLayoutOfNumbers(array)) return;
  if (IsNumberArray(array) && !symbols_.TakesArray(t->source)) return;
  const auto& inputs = objects_.tensor_inputs();
  if (std::any_of(inputs.begin(), inputs.end(), [](const TensorInput& in) { return MayBeWritten(in.fake); })) return;
  if (GuardLayout(array)) objects_.NoteMadeArray(array, MadeArray());
}

bool ArrayInputs::GuardLayout(BorrowedRef array) {
  Tracked* t = objects_.Find(array);
  if (t == nullptr || t->source == kNoSource || !HasLayoutOfNumbers(array)) return false;
  if (reads_.sources()[t->source].kind == SourceKind::kConstant || !reads_.MayRead(t->source)) return false;
  if (!t->realised && !t->layout_guarded) GuardLayoutOf(t->original, t->source, reads_.guards());
  t->layout_guarded = true;
  return true;
}

bool ArrayInputs::MayRelyOn(BorrowedRef array) const {
  const Activation* act = frames_.top();
  if (options_.values == nullptr || act == nullptr || !frames_.has_root() || !IsNumberArray(array)) return false;
  return options_.values->MayRelyOn(frame_ops::Code(act->frame), act->instruction, DigestOfContents(array));
}

}  // namespace framefuse
