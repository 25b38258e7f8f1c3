#include "symbolic/tracing/results_into_arguments.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/native/Resize.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

#include "backends/graph/operators.h"
#include "symbolic/tracing/recorder.h"
#include "symbolic/tracing/run_on_zeros.h"

namespace framefuse::tracing {
namespace {

using torch::jit::Stack;

// The arguments that it writes come last, and are what it returns.
bool WritesItsResultsOnly(const ir::Op& op) {
  const auto& arguments = op.arguments();
  const auto is_written = [](const ir::OpArgument& a) { return a.written && a.type == ir::ArgType::kTensor; };
  const auto count = static_cast<std::size_t>(std::count_if(arguments.begin(), arguments.end(), is_written));
  if (count == 0 || count != op.returns().size()) return false;
  const std::size_t first = arguments.size() - count;
  for (std::size_t i = 0; i < count; ++i) {
    const bool own = is_written(arguments[first + i]) && arguments[first + i].keyword_only;
    if (!own || op.returns()[i].written_argument != static_cast<int>(first + i)) return false;
  }
  return true;
}

bool Makes(const c10::FunctionSchema& form, const ir::Op& op) {
  const std::size_t count = op.arguments().size() - op.returns().size();
  if (form.is_mutable() || form.arguments().size() != count || form.returns().size() != op.returns().size())
    return false;
  for (std::size_t i = 0; i < count; ++i) {
    const c10::Argument& mine = op.schema().arguments()[i];
    if (form.arguments()[i].name() != mine.name() || *form.arguments()[i].type() != *mine.type()) return false;
  }
  return true;
}

std::optional<c10::OperatorHandle> FindMaker(const ir::Op& op) {
  if (!WritesItsResultsOnly(op)) return std::nullopt;
  const c10::OperatorName& name = op.handle().operator_name();
  const std::string& overload = name.overload_name;
  std::array<std::string, 3> overloads = {"", "", ""};
  if (overload.ends_with("_out")) overloads[1] = overload.substr(0, overload.size() - 4);
  if (overload.starts_with("values_")) overloads[2] = overload.substr(7);
  for (const std::string& candidate : overloads) {
    const auto found = c10::Dispatcher::singleton().findSchema({name.name, candidate});
    if (found && Makes(found->schema(), op)) return found;
  }
  return std::nullopt;
}

const std::optional<c10::OperatorHandle>& MakerOf(ir::OpId op) {
  static auto* mutex = new std::mutex;
  static auto* makers = new std::unordered_map<ir::OpId, std::optional<c10::OperatorHandle>>;
  const std::lock_guard lock(*mutex);
  const auto known = makers->find(op);
  return known != makers->end() ? known->second : makers->emplace(op, FindMaker(*op)).first->second;
}

bool HasSizes(const at::Tensor& t, const at::Tensor& of) {
  return t.dim() == of.dim() && std::equal(t.sym_sizes().begin(), t.sym_sizes().end(), of.sym_sizes().begin(),
                                           [](const c10::SymInt& a, const c10::SymInt& b) { return a == b; });
}

// What makes the results may itself call an operator that writes them into empty tensors.
thread_local bool in_maker = false;

class MakerScope {
 public:
  MakerScope() { in_maker = true; }
  ~MakerScope() { in_maker = false; }
  MakerScope(const MakerScope&) = delete;
  MakerScope& operator=(const MakerScope&) = delete;
};

// As eager does before the kernel runs, with its warning. False: there is no room for it.
bool Resize(Recorder& recorder, const at::Tensor& argument, const at::Tensor& result) {
  static const c10::OperatorHandle resize = ir::RequireOp(ir::OpName::kResize_)->handle();
  const bool symbolic = argument.unsafeGetTensorImpl()->has_symbolic_sizes_strides() ||
                        result.unsafeGetTensorImpl()->has_symbolic_sizes_strides();
  if (symbolic || argument.requires_grad() || !result.is_contiguous()) return false;
  at::native::resize_output_check(argument, result.sizes());
  Stack one = {argument, result.sizes().vec(), c10::IValue()};
  recorder.Record(resize, &one);
  return true;
}

// Whether the arguments that are written have the sizes of the results, as far as those are known at once.
bool FitNow(const OpTraits& making, c10::ArrayRef<c10::IValue> args, std::size_t written) {
  Outputs outputs;
  if (making.shape == nullptr || !making.shape(args.slice(0, args.size() - written), outputs) ||
      outputs.size() != written)
    return true;
  for (std::size_t i = 0; i < written; ++i) {
    const at::Tensor& argument = args[args.size() - written + i].toTensor();
    const auto sizes = argument.sym_sizes();
    const auto& made = outputs[i].sizes;
    const auto is_same = [](const c10::SymInt& a, const c10::SymInt& b) { return a == b; };
    if (sizes.size() != made.size() || !std::equal(sizes.begin(), sizes.end(), made.begin(), is_same)) return false;
  }
  return true;
}

void StandFor(const at::Tensor& argument, const at::Tensor& result) {
  FakeImpl* fake = AsFake(argument);
  fake->set_storage_keep_dtype(result.storage());
  fake->set_sizes_and_strides(result.sym_sizes(), result.sym_strides(), result.sym_storage_offset());
  fake->Rebind(AsFake(result)->value());
}

}  // namespace

bool IsNewAndEmpty(Recorder& recorder, const at::Tensor& t) {
  const FakeImpl* fake = AsFake(t);
  if (fake == nullptr || fake->has_symbolic_sizes_strides() || fake->numel() != 0) return false;
  if (recorder.inputs().Contains(fake->value()) || t.requires_grad()) return false;
  const std::vector<ir::Value>& values = recorder.graph().values;
  const ir::StorageId storage = recorder.graph().value(fake->value()).storage;
  return storage >= 0 &&
         std::count_if(values.begin(), values.end(), [&](const ir::Value& v) { return v.storage == storage; }) == 1;
}

bool RecordIntoArguments(Recorder& recorder, const OpTraits& traits, Stack* stack) {
  static const c10::OperatorHandle copy = ir::RequireOp(ir::OpName::kCopy_)->handle();
  if (!traits.op->mutates() || in_maker || recorder.branches().any_open()) return false;
  const std::optional<c10::OperatorHandle>& maker = MakerOf(traits.op);
  if (!maker || TraitsOf(*maker).is_composite || TraitsOf(*maker).meta_source == MetaSource::kComposite) return false;
  const std::size_t count = traits.op->returns().size();
  const Stack written(stack->end() - static_cast<std::ptrdiff_t>(count), stack->end());
  std::vector<bool> grows;
  for (const c10::IValue& v : written) grows.push_back(IsNewAndEmpty(recorder, v.toTensor()));
  const bool any_grows = std::find(grows.begin(), grows.end(), true) != grows.end();
  const OpTraits& making = TraitsOf(*maker);
  // A kernel for metadata tells of the tensors that are written; composite code would resize the traced ones.
  const bool is_described = making.meta_source != MetaSource::kNone && traits.meta_source != MetaSource::kComposite &&
                            !ir::Has(traits.op, ir::OpFact::kRunForMetadata);
  const auto all = static_cast<std::size_t>(traits.num_arguments);
  const bool fits = FitNow(making, c10::ArrayRef<c10::IValue>(stack->data() + (stack->size() - all), all), count);
  if (!any_grows && !traits.op->is_sized_by_values() && is_described && fits) return false;
  torch::jit::drop(*stack, count);
  {
    const MakerScope scope;
    recorder.Record(*maker, stack);
  }
  const Stack results(stack->end() - static_cast<std::ptrdiff_t>(count), stack->end());
  torch::jit::drop(*stack, count);
  for (std::size_t i = 0; i < count; ++i) {
    const at::Tensor& argument = written[i].toTensor();
    const at::Tensor& result = results[i].toTensor();
    const bool alike = result.defined() && argument.scalar_type() == result.scalar_type();
    if (alike && grows[i]) {
      StandFor(argument, result);
    } else if (alike && (HasSizes(argument, result) || Resize(recorder, argument, result))) {
      Stack one = {argument, result, false};
      recorder.RecordPlain(TraitsOf(copy), &one);
    } else {
      recorder.Break(BreakKind::kMetadataMutation, traits, "an argument is resized");
    }
    stack->push_back(argument);
  }
  return true;
}

}  // namespace framefuse::tracing
