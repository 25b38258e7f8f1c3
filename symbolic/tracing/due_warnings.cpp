#include "symbolic/tracing/due_warnings.h"

#include <ATen/core/Tensor.h>
#include <ATen/record_function.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <typeinfo>

#include "backends/graph/operators.h"
#include "backends/graph/unsaid_warnings.h"
#include "symbolic/tracing/op_traits.h"
#include "symbolic/tracing/recorder.h"
#include "symbolic/tracing/run_on_zeros.h"
#include "symbolic/tracing/shapes/shapes.h"
#include "symbolic/tracing/warning_watch.h"

namespace framefuse::tracing {
namespace {

int attempts = 0;      // under way, in all threads
bool outside = false;  // what the flag was before the first of them

struct IsDue {};

class ThrowingHandler final : public c10::WarningHandler {
 public:
  void process(const c10::Warning&) override { throw IsDue(); }
};

class BreakingHandler final : public HandlerOfAttempt {
 public:
  void process(const c10::Warning& warning) override {
    if (!IsSaidEachTime(warning.msg()) || outer == nullptr) BreakOnWarning(*recorder, warning);
    outer->process(warning);
  }
  Recorder* recorder = nullptr;
};
thread_local BreakingHandler breaking_handler;

bool IsOurs(const c10::WarningHandler& handler) {
  const std::type_info& type = typeid(handler);
  return type == typeid(WarningWatch) || type == typeid(BreakingHandler) || type == typeid(ThrowingHandler);
}

// How it was before an operator that warns as in eager.
struct Before final : at::ObserverContext {
  c10::WarningHandler* handler = c10::WarningUtils::get_warning_handler();
  bool always = c10::WarningUtils::get_warnAlways();
};

std::unique_ptr<at::ObserverContext> Enter(const at::RecordFunction&) {
  Recorder* recorder = Recorder::Current();
  if (recorder == nullptr || recorder->around().heard_warnings == HeardWarnings::kAll) return nullptr;
  auto before = std::make_unique<Before>();
  if (IsOurs(*before->handler)) return nullptr;
  breaking_handler.recorder = recorder;
  breaking_handler.outer = before->handler;
  c10::WarningUtils::set_warning_handler(&breaking_handler);
  c10::WarningUtils::set_warnAlways(outside);
  return before;
}

void Leave(const at::RecordFunction&, at::ObserverContext* context) {
  if (context == nullptr) return;
  const auto* before = static_cast<Before*>(context);
  c10::WarningUtils::set_warning_handler(before->handler);
  c10::WarningUtils::set_warnAlways(before->always);
}

// Whether it warns; nothing: it raises, which may be about its operands.
std::optional<bool> RunHeard(const OpTraits& traits, torch::jit::Stack* stack) {
  ThrowingHandler handler;
  const c10::WarningUtils::WarningHandlerGuard guard(&handler);
  try {
    traits.handle.callBoxed(stack);
  } catch (const IsDue&) {
    return true;
  } catch (const std::exception&) {
    return std::nullopt;
  }
  return false;
}

bool IsSymbolic(const c10::IValue& v) {
  if (v.isSymInt() || v.isSymFloat() || v.isSymBool()) return true;
  if (v.isTensor()) {
    return v.toTensor().defined() && v.toTensor().unsafeGetTensorImpl()->has_symbolic_sizes_strides();
  }
  if (!v.isList()) return false;
  const auto list = v.toListRef();
  return std::any_of(list.begin(), list.end(), IsSymbolic);
}

}  // namespace

AllWarningsSaid::AllWarningsSaid() {
  if (attempts++ > 0) return;
  outside = c10::WarningUtils::get_warnAlways();
  c10::WarningUtils::set_warnAlways(true);
}

AllWarningsSaid::~AllWarningsSaid() {
  if (--attempts == 0) c10::WarningUtils::set_warnAlways(outside);
}

DueWarningsHeard::DueWarningsHeard(Recorder* recorder) {
  breaking_handler.recorder = recorder;
  callback_ = at::addThreadLocalCallback(
      at::RecordFunctionCallback(&Enter, &Leave).scopes({at::RecordScope::FUNCTION}).needsIds(false));
}

DueWarningsHeard::~DueWarningsHeard() { at::removeCallback(callback_); }

bool IsOfResized(std::string_view words) {
  return words.starts_with("An output with one or more elements was resized since it had shape ");
}

bool IsSaidEachTime(std::string_view words) { return IsOfResized(words) || ir::IsWarningOfSizes(words); }

void BreakOnWarning(Recorder& recorder, const c10::Warning& warning) {
  recorder.SetPendingBreak({BreakKind::kWarning, "", warning.msg(), ""});
  ThrowBreak(BreakKind::kWarning, "", warning.msg());
}

bool IsWarningDue(const OpTraits& traits, c10::ArrayRef<c10::IValue> args) {
  const ir::Op& op = *traits.op;
  if (op.is_random() || op.has_side_effect() || !ir::Has(&op, ir::OpFact::kAten)) return true;
  if (std::any_of(args.begin(), args.end(), IsSymbolic)) return true;
  std::optional<torch::jit::Stack> zeros = ZerosFor(args);
  if (!zeros) return true;
  const c10::impl::ExcludeDispatchKeyGuard off(KeysOffForMeta());
  const bool always = c10::WarningUtils::get_warnAlways();
  c10::WarningUtils::set_warnAlways(outside);
  std::optional<bool> warns = RunHeard(traits, &*zeros);
  if (!warns) {  // a factorisation may refuse zeros
    zeros = ZerosFor(args);
    for (const c10::IValue& v : *zeros) {
      if (v.isTensor() && v.toTensor().dim() >= 2 && !IsExpanded(v.toTensor()))
        v.toTensor().diagonal(0, -2, -1).fill_(1);
    }
    warns = RunHeard(traits, &*zeros);
  }
  c10::WarningUtils::set_warnAlways(always);
  return warns.value_or(true);
}

}  // namespace framefuse::tracing
