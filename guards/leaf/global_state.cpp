#include "guards/leaf/global_state.h"

#include <ATen/Context.h>
#include <ATen/FuncTorchTLS.h>
#include <ATen/PythonTorchFunctionTLS.h>
#include <ATen/autocast_mode.h>
#include <c10/core/AutogradState.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <torch/csrc/PyInterpreter.h>
#include <torch/csrc/autograd/anomaly_mode.h>
#include <torch/csrc/autograd/forward_grad.h>

#include <array>
#include <sstream>
#include <string_view>

#include "absl/strings/str_format.h"
#include "guards/leaf/saved_tensor_hooks.h"
#include "guards/leaf/torch_settings.h"

namespace framefuse {
namespace {

// In the order in which ReadGlobalState adds them.
constexpr std::array<std::string_view, 31> kSwitchNames = {
    "grad mode",
    "inference mode",
    "forward grad mode",
    "view replay",
    "forward AD level",
    "functorch level",
    "autocast on cpu",
    "autocast on cuda",
    "autocast cache",
    "deterministic algorithms",
    "deterministic warn_only",
    "deterministic fill",
    "cudnn.enabled",
    "cudnn.benchmark",
    "cudnn.deterministic",
    "mkldnn.enabled",
    "flash attention",
    "memory-efficient attention",
    "math attention",
    "cudnn attention",
    "FA3 attention",
    "overrideable attention",
    "16-bit sums in math attention",
    "tf32 in cublas",
    "tf32 set in two ways",
    "mkldnn.deterministic",
    "16-bit sums in cublas",
    "torch function mode skipped",
    "saved tensor hooks",
    "saved tensor hooks of a user",
    "anomaly detection",
};

constexpr std::string_view kDefaultDtype = "default dtype", kAutocastCpuDtype = "autocast dtype on cpu",
                           kAutocastCudaDtype = "autocast dtype on cuda", kFunctionModes = "torch function modes",
                           kTopFunctionMode = "another torch function mode is active",
                           kFunctionDisabled = "torch function disabled", kDispatchModes = "torch dispatch modes",
                           kTopDispatchMode = "another torch dispatch mode is active",
                           kIncludedKeys = "included dispatch keys", kExcludedKeys = "excluded dispatch keys",
                           kAttentionOrder = "order of attention kernels";

class Switches {
 public:
  void Add(bool value) { bits_ |= static_cast<std::uint64_t>(value) << count_++; }
  std::uint64_t bits() const { return bits_; }

 private:
  std::uint64_t bits_ = 0;
  unsigned count_ = 0;
};

// Asking throws where the user mixed the old and the new way of setting it; matmuls throw then, too.
void AddTf32(const at::Context& context, Switches* s) noexcept {
  bool allowed = false, mixed = false;
  try {
    allowed = context.allowTF32CuBLAS();
  } catch (...) {
    mixed = true;
  }
  s->Add(allowed);
  s->Add(mixed);
}

// torch 2.11 knows no such flag.
template <class Tls>
bool SkipsNextTorchFunction() {
  if constexpr (requires { Tls::peek_skip_next(); }) return Tls::peek_skip_next();
  return false;
}

bool HasFunctorchLevel() {
  return at::functorch::functorchTLSAccessor() != nullptr &&
         c10::impl::tls_is_dispatch_key_included(c10::DispatchKey::FuncTorchDynamicLayerFrontMode);
}
bool HasForwardLevel() { return torch::autograd::ForwardADLevel::try_get_by_idx(0) != nullptr; }

std::uint64_t ReadSwitches() {
  const at::Context& context = at::globalContext();
  const c10::AutogradState& autograd = c10::AutogradState::get_tls_state();
  Switches s;
  s.Add(autograd.get_grad_mode());
  s.Add(autograd.get_inference_mode());
  s.Add(autograd.get_fw_grad_mode());
  s.Add(autograd.get_view_replay_enabled());
  s.Add(HasForwardLevel());
  s.Add(HasFunctorchLevel());
  s.Add(at::autocast::is_autocast_enabled(at::kCPU));
  s.Add(at::autocast::is_autocast_enabled(at::kCUDA));
  s.Add(at::autocast::is_autocast_cache_enabled());
  s.Add(context.deterministicAlgorithms());
  s.Add(context.deterministicAlgorithmsWarnOnly());
  s.Add(context.deterministicFillUninitializedMemory());
  s.Add(context.userEnabledCuDNN());
  s.Add(context.benchmarkCuDNN());
  s.Add(context.deterministicCuDNN());
  s.Add(context.userEnabledMkldnn());
  s.Add(context.userEnabledFlashSDP());
  s.Add(context.userEnabledMemEfficientSDP());
  s.Add(context.userEnabledMathSDP());
  s.Add(context.userEnabledCuDNNSDP());
  s.Add(context.userEnabledFA3SDP());
  s.Add(context.userEnabledOverrideableSDP());
  s.Add(context.allowFP16BF16ReductionMathSDP());
  AddTf32(context, &s);
  s.Add(context.deterministicMkldnn());
  s.Add(context.allowFP16AccumulationCuBLAS());
  s.Add(SkipsNextTorchFunction<at::impl::PythonTorchFunctionTLS>());
  const SavedTensorHooks hooks = SavedTensorHooksNow();
  s.Add(hooks != SavedTensorHooks::kNone);
  s.Add(hooks == SavedTensorHooks::kOfUser);
  s.Add(torch::autograd::AnomalyMode::is_enabled());
  return s.bits();
}

std::uint32_t AttentionOrder() {
  std::uint32_t order = 0;
  for (const at::SDPBackend backend : at::globalContext().sDPPriorityOrder()) {
    order = order << 3 | static_cast<std::uint32_t>(backend);
  }
  return order;
}

const char* OnOff(bool on) { return on ? "enabled" : "disabled"; }

template <class T>
std::string Difference(std::string_view what, const T& expected, const T& actual) {
  std::ostringstream text;
  text << what << ": expected " << expected << ", actual " << actual;
  return text.str();
}

std::string DtypeDifference(std::string_view what, std::uint8_t expected, std::uint8_t actual) {
  return Difference(what, c10::toString(static_cast<c10::ScalarType>(expected)),
                    c10::toString(static_cast<c10::ScalarType>(actual)));
}

}  // namespace

GlobalState ReadGlobalState(bool with_settings) noexcept {
  GlobalState state;
  if (with_settings) state.settings = ReadTorchSettings();
  const c10::impl::LocalDispatchKeySet keys = c10::impl::tls_local_dispatch_key_set();
  state.included_keys = keys.included_.raw_repr();
  state.excluded_keys = keys.excluded_.raw_repr();
  state.switches = ReadSwitches();
  state.attention_order = AttentionOrder();
  using FunctionModes = at::impl::PythonTorchFunctionTLS;
  state.torch_function_disabled = static_cast<std::uint8_t>(FunctionModes::get_disabled_state());
  if (const std::int64_t n = FunctionModes::stack_len(); n > 0) {
    state.function_modes = static_cast<std::uint16_t>(n);
    state.top_function_mode = FunctionModes::get_stack_at(n - 1)->ptr(getPyInterpreter());
  }
  using DispatchModes = c10::impl::TorchDispatchModeTLS;
  if (DispatchModes::any_modes_set()) {
    const std::int64_t n = DispatchModes::stack_len();
    state.dispatch_modes = static_cast<std::uint16_t>(n);
    if (n > 0) state.top_dispatch_mode = DispatchModes::get_stack_at(n - 1)->ptr(getPyInterpreter());
  }
  state.default_dtype = static_cast<std::uint8_t>(c10::get_default_dtype_as_scalartype());
  state.autocast_cpu_dtype = static_cast<std::uint8_t>(at::autocast::get_autocast_dtype(at::kCPU));
  state.autocast_cuda_dtype = static_cast<std::uint8_t>(at::autocast::get_autocast_dtype(at::kCUDA));
  return state;
}

const char* ActiveInterceptor() noexcept {
  // torch.jit.trace keeps what it was told of tensors, by address: of fakes, too, after their end.
  if (c10::impl::tls_is_dispatch_key_included(c10::DispatchKey::Tracer)) return "torch.jit.trace";
  if (c10::impl::TorchDispatchModeTLS::any_modes_set()) return "a torch dispatch mode";
  if (SavedTensorHooksNow() == SavedTensorHooks::kOfUser) return "hooks for saved tensors";
  // It keeps where each operation was called, and looks at what each one's gradient is.
  if (torch::autograd::AnomalyMode::is_enabled()) return "torch.autograd's detection of anomalies";
  if (HasFunctorchLevel()) return "a torch.func transform";
  if (HasForwardLevel()) return "a level of forward-mode differentiation";
  // The first question about modes ends it, and capture asks in other places than Python.
  if (SkipsNextTorchFunction<at::impl::PythonTorchFunctionTLS>()) return "a skipped torch function";
  return nullptr;
}

std::string ExplainGlobalState(const GlobalState& expected, const GlobalState& actual) {
  for (std::size_t i = 0; i < kSwitchNames.size(); ++i) {
    const bool want = (expected.switches >> i & 1) != 0, got = (actual.switches >> i & 1) != 0;
    if (want != got) return Difference(kSwitchNames[i], OnOff(want), OnOff(got));
  }
  if (expected.settings != actual.settings) return ExplainTorchSettings(expected.settings, actual.settings);
  if (expected.attention_order != actual.attention_order) {
    const auto digits = [](std::uint32_t order) { return absl::StrFormat("%05o", order); };
    return Difference(kAttentionOrder, digits(expected.attention_order), digits(actual.attention_order));
  }
  if (expected.default_dtype != actual.default_dtype) {
    return DtypeDifference(kDefaultDtype, expected.default_dtype, actual.default_dtype);
  }
  if (expected.autocast_cpu_dtype != actual.autocast_cpu_dtype) {
    return DtypeDifference(kAutocastCpuDtype, expected.autocast_cpu_dtype, actual.autocast_cpu_dtype);
  }
  if (expected.autocast_cuda_dtype != actual.autocast_cuda_dtype) {
    return DtypeDifference(kAutocastCudaDtype, expected.autocast_cuda_dtype, actual.autocast_cuda_dtype);
  }
  if (expected.function_modes != actual.function_modes) {
    return Difference(kFunctionModes, expected.function_modes, actual.function_modes);
  }
  if (expected.top_function_mode != actual.top_function_mode) return std::string(kTopFunctionMode);
  if (expected.torch_function_disabled != actual.torch_function_disabled) {
    return Difference(kFunctionDisabled, int{expected.torch_function_disabled}, int{actual.torch_function_disabled});
  }
  if (expected.dispatch_modes != actual.dispatch_modes) {
    return Difference(kDispatchModes, expected.dispatch_modes, actual.dispatch_modes);
  }
  if (expected.top_dispatch_mode != actual.top_dispatch_mode) return std::string(kTopDispatchMode);
  const auto text = [](std::uint64_t keys) {
    return c10::toString(c10::DispatchKeySet(c10::DispatchKeySet::RAW, keys));
  };
  if (expected.included_keys != actual.included_keys) {
    return Difference(kIncludedKeys, text(expected.included_keys), text(actual.included_keys));
  }
  if (expected.excluded_keys != actual.excluded_keys) {
    return Difference(kExcludedKeys, text(expected.excluded_keys), text(actual.excluded_keys));
  }
  return "";
}

std::vector<std::string_view> GlobalStateParts() {
  std::vector<std::string_view> parts(kSwitchNames.begin(), kSwitchNames.end());
  parts.insert(parts.end(), {kDefaultDtype, kAutocastCpuDtype, kAutocastCudaDtype, kFunctionModes, kTopFunctionMode,
                             kFunctionDisabled, kDispatchModes, kTopDispatchMode, kIncludedKeys, kExcludedKeys,
                             kAttentionOrder, kTorchSettings});
  return parts;
}

std::string DescribeGlobalState(const GlobalState& state) {
  std::ostringstream text;
  for (std::size_t i = 0; i < kSwitchNames.size(); ++i) {
    if ((state.switches >> i & 1) != 0) text << kSwitchNames[i] << ", ";
  }
  text << "default dtype " << c10::toString(static_cast<c10::ScalarType>(state.default_dtype));
  if (state.function_modes != 0) text << ", " << state.function_modes << " torch function modes";
  if (state.dispatch_modes != 0) text << ", " << state.dispatch_modes << " torch dispatch modes";
  return text.str();
}

}  // namespace framefuse
