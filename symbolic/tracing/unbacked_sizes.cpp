#include "symbolic/tracing/unbacked_sizes.h"

#include <ATen/ExpandUtils.h>
#include <ATen/ops/empty.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "backends/graph/boxed_call.h"
#include "backends/graph/operators.h"
#include "symbolic/tracing/known_places.h"
#include "symbolic/tracing/shapes/shapes.h"

namespace framefuse::tracing {
namespace {

using torch::jit::Stack;
using Values = std::vector<at::Tensor>;

constexpr std::int64_t kMostNumbers = 64;

const at::Tensor& TensorAt(const Stack& args, std::size_t i) { return args[i].toTensor(); }

// A result as DescribeResults reads it: no value of the graph.
at::Tensor Shaped(const Recorder& recorder, Dims sizes, Dims strides, c10::ScalarType dtype) {
  return MakeFake(MakeFakeStorage(at::kCPU, 0), sizes, strides, 0, dtype, at::kCPU, ir::kNoValue, recorder.id());
}
at::Tensor Contiguous(const Recorder& recorder, const Dims& sizes, c10::ScalarType dtype) {
  return Shaped(recorder, sizes, ContiguousStrides(sizes), dtype);
}

std::int64_t First(const Stack&) { return 0; }

// What an operator makes, where its first result has `size` elements, or as many in `dimension`.
struct Rule {
  // At most so many; nothing: that is not known.
  std::optional<c10::SymInt> (*most)(const Stack& args);
  Stack (*results)(const Recorder& recorder, const Stack& args, const c10::SymInt& size);
  std::int64_t (*dimension)(const Stack& args) = First;
};

std::optional<c10::SymInt> AsManyAsElements(const Stack& args) { return TensorAt(args, 0).sym_numel(); }
std::optional<c10::SymInt> Any(const Stack&) { return std::nullopt; }

Stack OfNonzero(const Recorder& recorder, const Stack& args, const c10::SymInt& size) {
  const Dims sizes = {size, TensorAt(args, 0).dim()};
  return {Shaped(recorder, sizes, Dims{1, size}, at::kLong)};  // the kernels make the transposed result
}

Stack OfUnique(const Recorder& recorder, const at::Tensor& self, bool inverse, bool counts, const c10::SymInt& size) {
  const Dims none = {0};
  return {Contiguous(recorder, {size}, self.scalar_type()),
          Contiguous(recorder, inverse ? ToDims(self.sym_sizes()) : none, at::kLong),
          Contiguous(recorder, counts ? Dims{size} : none, at::kLong)};
}
Stack OfUnique2(const Recorder& recorder, const Stack& args, const c10::SymInt& size) {
  return OfUnique(recorder, TensorAt(args, 0), args[2].toBool(), args[3].toBool(), size);
}

// Slices along a dimension; the kernel puts it first, and gives the other results whether they are wanted or not.
Stack OfUniqueSlices(const Recorder& recorder, const at::Tensor& self, std::int64_t dim, const c10::SymInt& size) {
  if (!self.is_cpu() || dim < -self.dim() || dim >= self.dim()) return {};  // eager's error is eager's to raise
  const auto at = static_cast<std::ptrdiff_t>(dim < 0 ? dim + self.dim() : dim);
  Dims moved = ToDims(self.sym_sizes());
  const c10::SymInt whole = moved[static_cast<std::size_t>(at)];
  moved.erase(moved.begin() + at);
  moved.insert(moved.begin(), size);
  Dims strides = ContiguousStrides(moved);
  for (Dims* d : {&moved, &strides}) std::rotate(d->begin(), d->begin() + 1, d->begin() + at + 1);
  return {Shaped(recorder, moved, strides, self.scalar_type()), Contiguous(recorder, {whole}, at::kLong),
          Contiguous(recorder, {size}, at::kLong)};
}
Stack OfUniqueDim(const Recorder& recorder, const Stack& args, const c10::SymInt& size) {
  return OfUniqueSlices(recorder, TensorAt(args, 0), args[1].toInt(), size);
}
std::optional<c10::SymInt> AsManyAsSlices(const Stack& args) {
  const at::Tensor& self = TensorAt(args, 0);
  const std::int64_t dim = args[1].toInt();
  if (dim < -self.dim() || dim >= self.dim()) return std::nullopt;
  return self.sym_size(dim);
}
std::int64_t Given(const Stack& args) { return args[1].toInt() + (args[1].toInt() < 0 ? TensorAt(args, 0).dim() : 0); }

Stack OfUniqueConsecutive(const Recorder& recorder, const Stack& args, const c10::SymInt& size) {
  if (!args[3].isNone()) return OfUniqueSlices(recorder, TensorAt(args, 0), args[3].toInt(), size);
  return OfUnique(recorder, TensorAt(args, 0), args[1].toBool(), args[2].toBool(), size);
}
std::int64_t GivenOfConsecutive(const Stack& args) {
  if (args[3].isNone()) return 0;
  return args[3].toInt() + (args[3].toInt() < 0 ? TensorAt(args, 0).dim() : 0);
}

Stack OfRepeats(const Recorder& recorder, const Stack& args, const c10::SymInt& size) {
  return {Contiguous(recorder, {size}, TensorAt(args, 0).scalar_type())};
}

Stack OfBincount(const Recorder& recorder, const Stack& args, const c10::SymInt& size) {
  if (args[1].isTensor() && args[1].toTensor().defined()) return {};
  return {Contiguous(recorder, {size}, at::kLong)};
}

std::optional<c10::SymInt> AsManyAsSelectable(const Stack& args) {
  c10::SymInt most = 1;
  for (const c10::SymInt& s :
       at::infer_size_symdimvector(TensorAt(args, 0).sym_sizes(), TensorAt(args, 1).sym_sizes())) {
    most = most * s;
  }
  return most;
}
Stack OfMaskedSelect(const Recorder& recorder, const Stack& args, const c10::SymInt& size) {
  if (TensorAt(args, 1).scalar_type() != c10::ScalarType::Bool) return {};
  return {Contiguous(recorder, {size}, TensorAt(args, 0).scalar_type())};
}

const Rule* FindRule(ir::OpId op) {
  using enum ir::OpName;
  static constexpr std::pair<ir::OpName, Rule> kRules[] = {
      {kNonzero, {AsManyAsElements, OfNonzero}},
      {k_Unique2, {AsManyAsElements, OfUnique2}},
      {kUniqueConsecutive, {AsManyAsElements, OfUniqueConsecutive, GivenOfConsecutive}},
      {kUniqueDim, {AsManyAsSlices, OfUniqueDim, Given}},
      {kRepeatInterleaveTensor, {Any, OfRepeats}},
      {kBincount, {Any, OfBincount}},
      {kMaskedSelect, {AsManyAsSelectable, OfMaskedSelect}},
  };
  for (const auto& [name, rule] : kRules) {
    if (ir::Is(op, name)) return &rule;
  }
  return nullptr;
}

// The size of the operator's first result in this call.
std::optional<std::int64_t> SizeAtHand(Recorder& recorder, const c10::OperatorHandle& handle, const Stack& args,
                                       std::int64_t dimension) {
  Stack run = args;
  Values fakes;
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < run.size(); ++i) {
    if (!run[i].isTensor() || !run[i].toTensor().defined()) continue;
    places.push_back(i);
    fakes.push_back(run[i].toTensor());
  }
  const std::optional<Values> values = recorder.values()->AtHand(fakes);
  if (!values) return std::nullopt;
  for (std::size_t i = 0; i < places.size(); ++i) run[places[i]] = (*values)[i];
  const TlsScope off(nullptr);
  const c10::impl::ExcludeDispatchKeyGuard plain(KeysOffForMeta());
  try {
    handle.callBoxed(&run);
  } catch (const c10::Error&) {
    return std::nullopt;  // it raises when the graph runs
  }
  return run[0].toTensor().size(dimension);
}

std::int64_t HintFor(std::optional<std::int64_t> at_hand, std::optional<std::int64_t> most) {
  if (at_hand && *at_hand >= 2) return *at_hand;
  return most ? std::max<std::int64_t>(2, *most / 2) : 2;
}

// Of tensors without elements the sizes tell all.
bool RecordOfNothing(Recorder& recorder, const c10::OperatorHandle& handle, Stack* stack) {
  const auto count = static_cast<std::ptrdiff_t>(handle.schema().arguments().size());
  Stack run(stack->end() - count, stack->end());
  for (c10::IValue& v : run) {
    if (!v.isTensor() || !v.toTensor().defined()) continue;
    const at::Tensor& t = v.toTensor();
    if (!t.is_cpu() || t.unsafeGetTensorImpl()->has_symbolic_sizes_strides() || t.numel() != 0) return false;
    const TlsScope off(nullptr);
    v = at::empty(t.sizes(), t.scalar_type());
  }
  {
    const TlsScope off(nullptr);
    const c10::impl::ExcludeDispatchKeyGuard plain(KeysOffForMeta());
    ir::CallHoldingOperands(handle, &run);  // an error is the program's own
  }
  recorder.RecordAs(TraitsOf(handle), stack, run);
  return true;
}

// Symbols of which something is relied on.
bool TakesAny(const Recorder& recorder) {
  return recorder.values() != nullptr && recorder.values()->TakesUnbacked() && recorder.values()->ChecksUnbacked();
}

}  // namespace

bool RecordUnbacked(Recorder& recorder, const c10::OperatorHandle& handle, Stack* stack) {
  const Rule* rule = FindRule(ir::InternOp(handle));
  if (rule == nullptr) return false;
  if (RecordOfNothing(recorder, handle, stack)) return true;
  if (!TakesAny(recorder)) return false;
  const auto count = static_cast<std::ptrdiff_t>(handle.schema().arguments().size());
  const Stack args(stack->end() - count, stack->end());
  Sizes& sizes = recorder.sizes();
  std::optional<std::int64_t> most_now, most_ever;
  if (const std::optional<c10::SymInt> most = rule->most(args)) {
    const ir::Dim d = recorder.ToDim(*most);
    most_now = sizes.HintOf(d);
    most_ever = sizes.Algebra().Highest(d);
  }
  if (most_now.value_or(2) < 1) return false;
  if (rule->results(recorder, args, 2).empty()) return false;
  const std::int64_t hint = HintFor(SizeAtHand(recorder, handle, args, rule->dimension(args)), most_now);
  // Of one element there are none or one: the hint is neither.
  const std::int64_t highest = most_ever.value_or(std::numeric_limits<std::int64_t>::max());
  const ir::Dim size = sizes.NewUnbackedSize(hint, std::max<std::int64_t>(highest, 2));
  if (ir::Is(TraitsOf(handle).op, ir::OpName::kBincount) && args[2].isInt()) {
    ir::Symbol& symbol = sizes.Table().symbol(static_cast<ir::SymbolIndex>(sizes.Table()[size.expr].value));
    symbol.min = std::max(symbol.min, std::min(args[2].toInt(), hint));
  }
  recorder.values()->AddedUnbacked();
  recorder.RecordAs(TraitsOf(handle), stack, rule->results(recorder, args, sizes.ToSymInt(size)));
  const auto results = static_cast<std::ptrdiff_t>(handle.schema().returns().size());
  const at::Tensor first = (stack->end() - results)->toTensor();
  recorder.AddUnbacked({static_cast<ir::SymbolIndex>(sizes.Table()[size.expr].value), AsFake(first)->value(),
                        static_cast<std::int32_t>(rule->dimension(args))});
  return true;
}

bool RecordUnbackedIndex(Recorder& recorder, const c10::OperatorHandle& handle, Stack* stack) {
  static const c10::OperatorHandle nonzero = ir::RequireOp(ir::OpName::kNonzero)->handle();
  static const c10::OperatorHandle select = ir::RequireOp(ir::OpName::kSelectInt)->handle();
  const at::Tensor self = (*stack)[stack->size() - 2].toTensor();
  const auto is_mask = [](const c10::IValue& v) {
    return v.isTensor() && v.toTensor().defined() && v.toTensor().scalar_type() == c10::ScalarType::Bool;
  };
  // A mask's sizes are those of the dimensions that it stands for: eager's error is eager's to raise.
  std::int64_t dimension = 0;
  for (const c10::IValue& v : stack->back().toListRef()) {
    if (v.isTensor() && v.toTensor().defined() && v.toTensor().scalar_type() == c10::ScalarType::Byte) return false;
    if (!is_mask(v)) {
      ++dimension;
      continue;
    }
    const at::Tensor& mask = v.toTensor();
    if (AsFake(mask) == nullptr || mask.dim() == 0 || recorder.ToDim(mask.sym_numel()).Is(0)) return false;
    for (std::int64_t d = 0; d < mask.dim(); ++d, ++dimension) {
      if (dimension >= self.dim() || self.sym_size(dimension) != mask.sym_size(d)) return false;
    }
  }
  // To the operator a mask is a list of indices for each of its dimensions.
  c10::List<std::optional<at::Tensor>> indices;
  for (const c10::IValue& v : stack->back().toListRef()) {
    if (!is_mask(v)) {
      indices.push_back(v.isTensor() ? std::optional<at::Tensor>(v.toTensor()) : std::nullopt);
      continue;
    }
    Stack found = {v};
    if (at::Tensor known = KnownPlaces(recorder, v.toTensor()); known.defined()) {
      found[0] = std::move(known);
    } else if (!RecordUnbacked(recorder, nonzero, &found)) {
      return false;
    }
    for (std::int64_t d = 0; d < v.toTensor().dim(); ++d) {
      Stack one = {found[0], 1, d};
      recorder.RecordPlain(TraitsOf(select), &one);
      indices.push_back(one[0].toTensor());
    }
  }
  stack->back() = std::move(indices);
  recorder.RecordPlain(TraitsOf(handle), stack);
  return true;
}

namespace {
// As many as there always are: of as few as bincount's minlength the graph checks that there are no more.
std::optional<std::int64_t> CountOf(Recorder& recorder, const c10::SymInt& size) {
  if (!size.is_symbolic()) return size.maybe_as_int();
  const ir::Dim count = recorder.ToDim(size);
  Sizes& sizes = recorder.sizes();
  if (count.is_constant()) return count.constant();
  const ir::Expr& e = sizes.Table()[count.expr];
  if (e.kind != ir::ExprKind::kSymbol) return std::nullopt;
  const ir::Symbol& symbol = sizes.Table().symbol(static_cast<ir::SymbolIndex>(e.value));
  const std::int64_t least = symbol.min;
  if (!symbol.unbacked || symbol.hint != least || least < 2) return std::nullopt;
  return sizes.Decide(ir::ExprKind::kEq, count, ir::Dim(least)) ? std::optional(least) : std::nullopt;
}
}  // namespace

std::optional<std::vector<ir::Dim>> UnbackedNumbers(Recorder& recorder, const at::Tensor& read) {
  static const c10::OperatorHandle clone = ir::RequireOp(ir::OpName::kClone)->handle();
  static const c10::OperatorHandle detach = ir::RequireOp(ir::OpName::kDetach)->handle();
  const c10::ScalarType type = read.scalar_type();
  const bool is_float = c10::isFloatingType(type) && type <= c10::ScalarType::BFloat16;
  if (!is_float && !c10::isIntegralType(type, /*includeBool=*/false)) return std::nullopt;
  if (recorder.values() == nullptr || !recorder.values()->TakesUnbacked()) return std::nullopt;
  // An integer is relied on to be small.
  if (!is_float && !recorder.values()->ChecksUnbacked()) return std::nullopt;
  const std::optional<std::int64_t> count = CountOf(recorder, read.sym_numel());
  if (!count || *count < 1 || *count > kMostNumbers) return std::nullopt;
  const std::optional<Values> at_hand = recorder.values()->AtHand({read});
  if (!at_hand) return std::nullopt;
  std::vector<c10::Scalar> hints;
  {
    const TlsScope off(nullptr);
    const c10::impl::ExcludeDispatchKeyGuard plain(KeysOffForMeta());
    const at::Tensor flat = at_hand->front().cpu().reshape({-1});
    for (std::int64_t i = 0; i < *count; ++i) {
      hints.push_back(flat[i].item());
      const c10::Scalar& hint = hints.back();
      if (is_float && !std::isfinite(hint.toDouble())) return std::nullopt;
      if (!is_float && (hint.toLong() < ir::kNumbers.first || hint.toLong() > ir::kNumbers.second)) return std::nullopt;
    }
  }
  // What the tensor holds now: it may be written later. A graph that torch runs would give it a history.
  Stack copy = {read};
  if (read.requires_grad() && !recorder.values()->ChecksUnbacked()) recorder.RecordPlain(TraitsOf(detach), &copy);
  copy.emplace_back();
  recorder.RecordPlain(TraitsOf(clone), &copy);
  const ir::ValueId value = AsFake(copy[0].toTensor())->value();
  Sizes& sizes = recorder.sizes();
  std::vector<ir::Dim> numbers;
  for (std::size_t i = 0; i < hints.size(); ++i) {
    numbers.push_back(sizes.NewUnbackedNumber(hints[i]));
    recorder.values()->AddedUnbacked();
    const auto symbol = static_cast<ir::SymbolIndex>(sizes.Table()[numbers.back().expr].value);
    recorder.AddUnbacked({symbol, value, ~static_cast<std::int32_t>(i)});
  }
  return numbers;
}

bool RecordTruth(Recorder& recorder, const at::Tensor& read, bool truth) {
  static const c10::OperatorHandle differs = ir::RequireOp(ir::OpName::kNeScalar)->handle();
  if (!TakesAny(recorder)) return false;
  if (read.sym_numel().maybe_as_int() != 1) return false;  // of more elements Python raises
  Stack stack = {read, 0};
  recorder.RecordPlain(TraitsOf(differs), &stack);
  Sizes& sizes = recorder.sizes();
  const ir::Dim number = sizes.NewUnbackedSize(truth ? 1 : 0, 1);
  recorder.values()->AddedUnbacked();
  const auto symbol = static_cast<ir::SymbolIndex>(sizes.Table()[number.expr].value);
  recorder.AddUnbacked({symbol, AsFake(stack[0].toTensor())->value(), ~0});
  return sizes.Decide(ir::ExprKind::kEq, number, ir::Dim(1)) == truth;
}

bool OnlyWrites(const ir::Op& op) {
  const auto is_written = [](const ir::OpReturn& r) { return r.written_argument >= 0; };
  return op.mutates() && std::all_of(op.returns().begin(), op.returns().end(), is_written);
}

bool IsCheckedByKernel(const ir::Op& op, Sizes& sizes, c10::ArrayRef<c10::IValue> args) {
  return op.FindArgument("out") < 0 && AnyIsUnbacked(sizes, args);
}

bool AnyIsUnbacked(Sizes& sizes, c10::ArrayRef<c10::IValue> args) {
  const auto is_unbacked = [&](const at::Tensor& t) {
    if (!t.defined() || !t.unsafeGetTensorImpl()->has_symbolic_sizes_strides()) return false;
    return std::any_of(t.sym_sizes().begin(), t.sym_sizes().end(),
                       [&](const c10::SymInt& s) { return sizes.Table().LastUnbacked(sizes.ToDim(s)) >= 0; });
  };
  return std::any_of(args.begin(), args.end(), [&](const c10::IValue& v) {
    if (v.isTensor()) return is_unbacked(v.toTensor());
    if (!v.isTensorList() && !v.isOptionalTensorList()) return false;
    const auto list = v.toListRef();
    return std::any_of(list.begin(), list.end(),
                       [&](const c10::IValue& e) { return e.isTensor() && is_unbacked(e.toTensor()); });
  });
}

}  // namespace framefuse::tracing
