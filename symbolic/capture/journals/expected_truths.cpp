#include "symbolic/capture/journals/expected_truths.h"

#include <torch/csrc/autograd/python_variable.h>

#include "absl/strings/str_cat.h"
#include "frame_eval/bytecode/raising.h"
#include "frame_eval/versions/frame_ops.h"
#include "symbolic/capture/code_text.h"
#include "symbolic/capture/journals/backward_phase.h"
#include "symbolic/tracing/tracer.h"

namespace framefuse {

std::optional<bool> ExpectedTruths::Expect(const Activation& act, BorrowedRef tensor) {
  if (options_.raising == nullptr || backward_.running() || tracer_.in_branch()) return std::nullopt;
  const at::Tensor& t = THPVariable_Unpack(tensor.get());
  if (t.sym_numel().maybe_as_int() != 1) return std::nullopt;  // of more elements Python raises
  PyCodeObject* code = frame_ops::Code(act.frame);
  const Bytecode* bytecode = BytecodeOf(code);
  if (bytecode == nullptr || options_.raising->IsRefuted(code, act.instruction)) return std::nullopt;
  const std::optional<bool> truth = TruthThatGoesOn(*bytecode, act.instruction);
  if (!truth) return std::nullopt;
  if (!options_.looks_at_end || !t.device().is_cpu()) {
    return tracer_.DeferTruth(tensor, *truth) ? truth : std::nullopt;
  }
  const std::string place = absl::StrCat(FileNameOf(code), ":", LineOf(code, act.instruction));
  all_.push_back({Ref::Create(tensor), {0, *truth, code, act.instruction, place}});
  return truth;
}

}  // namespace framefuse
