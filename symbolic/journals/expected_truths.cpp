#include "symbolic/journals/expected_truths.h"

#include <torch/csrc/autograd/python_variable.h>

#include "absl/strings/str_cat.h"
#include "frame_eval/bytecode/raising.h"
#include "frame_eval/versions/frame_ops.h"
#include "symbolic/journals/backward_phase.h"
#include "symbolic/messages/code_text.h"
#include "symbolic/tracing/tracer.h"

namespace framefuse {

bool ExpectedTruths::MayExpect(const Activation& act, BorrowedRef tensor) const {
  if (options_.raising == nullptr || backward_.running() || tracer_.in_branch()) return false;
  const at::Tensor& t = THPVariable_Unpack(tensor.get());
  if (t.sym_numel().maybe_as_int() != 1) return false;  // of more elements Python raises
  return !options_.raising->IsRefuted(frame_ops::Code(act.frame), act.instruction);
}

std::optional<bool> ExpectedTruths::Expect(const Activation& act, BorrowedRef tensor) {
  if (!MayExpect(act, tensor)) return std::nullopt;
  const Bytecode* bytecode = BytecodeOf(frame_ops::Code(act.frame));
  const std::optional<bool> truth =
      bytecode != nullptr ? TruthThatGoesOn(*bytecode, act.instruction) : std::optional<bool>();
  if (!truth || !Note(act, tensor, *truth)) return std::nullopt;
  return truth;
}

bool ExpectedTruths::ExpectCheck(const Activation& act, BorrowedRef tensor) { return ExpectOfTorch(act, tensor, true); }

bool ExpectedTruths::ExpectOfTorch(const Activation& act, BorrowedRef tensor, bool truth) {
  return MayExpect(act, tensor) && BytecodeOf(frame_ops::Code(act.frame)) != nullptr && Note(act, tensor, truth);
}

bool ExpectedTruths::Note(const Activation& act, BorrowedRef tensor, bool truth) {
  PyCodeObject* code = frame_ops::Code(act.frame);
  if (!options_.looks_at_end || !THPVariable_Unpack(tensor.get()).device().is_cpu()) {
    return tracer_.sizes().DeferTruth(tensor, truth);
  }
  const std::string place = absl::StrCat(FileNameOf(code), ":", LineOf(code, act.instruction));
  all_.push_back({Ref::Create(tensor), {0, truth, code, act.instruction, place}});
  return true;
}

}  // namespace framefuse
