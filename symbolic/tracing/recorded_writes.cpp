#include "symbolic/tracing/recorded_writes.h"

#include <ATen/core/grad_mode.h>
#include <c10/core/ScalarType.h>
#include <c10/core/SymInt.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "backends/graph/operators.h"
#include "symbolic/tracing/autograd_bridge.h"
#include "symbolic/tracing/recorder.h"
#include "symbolic/tracing/shared_elements.h"

namespace framefuse::tracing {
namespace {

// Eager compares strides of dimensions of size one, too.
bool InStep(const ir::ExprTable& exprs, const ir::Value& a, const ir::Value& b) {
  if (a.sizes.size() != b.sizes.size() || a.dtype != b.dtype) return false;
  if (exprs.Hint(a.offset) != exprs.Hint(b.offset)) return false;
  for (std::size_t d = 0; d < a.sizes.size(); ++d) {
    if (exprs.Hint(a.sizes[d]) != exprs.Hint(b.sizes[d])) return false;
    if (exprs.Hint(a.strides[d]) != exprs.Hint(b.strides[d])) return false;
  }
  return true;
}

// Whether element meets element where the values have one geometry. A product of matrices reads what it has written.
bool GoesInStep(const OpTraits& traits) {
  static constexpr ir::OpNames kOthers{ir::OpName::kCopy_, ir::OpName::kFill_Tensor, ir::OpName::kWhereSelfOut};
  return traits.is_foreach || traits.op->is_pointwise() || kOthers.contains(traits.op);
}

// Shows for all sizes that two values of one storage have no element in common, as two chunks of a tensor: in what lies
// within one step of the outer dimensions the one ends before the other begins. What that relies on becomes facts.
class Apart {
 public:
  Apart(Sizes& sizes, const ir::Value& a, const ir::Value& b)
      : sizes_(sizes),
        algebra_(sizes.Algebra()),
        first_(sizes.HintOf(a.offset) <= sizes.HintOf(b.offset) ? a : b),
        second_(&first_ == &a ? b : a),
        distance_(algebra_.Subtract(second_.offset, first_.offset)) {}

  bool Show() {
    if (first_.strides != second_.strides || c10::elementSize(first_.dtype) != c10::elementSize(second_.dtype)) {
      return false;
    }
    std::vector<std::size_t> order(first_.strides.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return sizes_.HintOf(first_.strides[a]) < sizes_.HintOf(first_.strides[b]);
    });
    ir::Dim of_first(0), of_second(0);  // how far the inner dimensions reach
    for (std::size_t inner = 0; inner <= order.size(); ++inner) {
      if (Separates(order, inner, of_first, of_second)) return true;
      if (inner == order.size()) break;
      const std::size_t d = order[inner];
      const auto reach = [&](const ir::Value& v) {
        return algebra_.Multiply(algebra_.Subtract(v.sizes[d], ir::Dim(1)), v.strides[d]);
      };
      of_first = algebra_.Add(of_first, reach(first_));
      of_second = algebra_.Add(of_second, reach(second_));
    }
    return false;
  }

 private:
  // A number of steps, or as many strides of the dimension before as that one has elements, which are such.
  bool IsMultiple(const std::vector<std::size_t>& order, std::size_t i, ir::Dim step) {
    const ir::Dim stride = first_.strides[order[i]];
    if (algebra_.Multiply(algebra_.FloorDivide(stride, step), step) == stride) return true;
    const std::int64_t of_stride = sizes_.HintOf(stride), of_step = sizes_.HintOf(step);
    if (of_step != 0 && algebra_.Multiply(step, ir::Dim(of_stride / of_step)) == stride) return true;
    if (i == 0) return false;
    const std::size_t before = order[i - 1];
    for (const ir::Value* v : {&first_, &second_}) {
      if (algebra_.Multiply(v->strides[before], v->sizes[before]) == stride && IsMultiple(order, i - 1, step))
        return true;
    }
    return false;
  }

  bool Separates(const std::vector<std::size_t>& order, std::size_t inner, ir::Dim of_first, ir::Dim of_second) {
    if (sizes_.HintOf(of_first) >= sizes_.HintOf(distance_)) return false;
    if (inner < order.size()) {
      const ir::Dim step = first_.strides[order[inner]], end = algebra_.Add(distance_, of_second);
      if (sizes_.HintOf(end) >= sizes_.HintOf(step)) return false;
      for (std::size_t i = inner; i < order.size(); ++i) {
        if (!IsMultiple(order, i, step)) return false;
      }
      if (!sizes_.Decide(ir::ExprKind::kLt, end, step)) return false;
    }
    return sizes_.Decide(ir::ExprKind::kLt, of_first, distance_);
  }

  Sizes& sizes_;
  ir::DimAlgebra algebra_;
  const ir::Value &first_, &second_;
  ir::Dim distance_;
};

// Where it lies is asked for once and for all calls of the graph.
void GuardPlaces(const at::Tensor& t) {
  for (const c10::SymIntArrayRef numbers : {t.sym_sizes(), t.sym_strides()}) {
    for (const c10::SymInt& s : numbers) s.guard_int(__FILE__, __LINE__);
  }
  t.sym_storage_offset().guard_int(__FILE__, __LINE__);
}

// A tensor that the operator is given, alone or in a list.
struct Operand {
  const at::Tensor* tensor;
  const ir::Value* value;
  std::size_t argument;
  int place;  // in its list; -1: in none
  bool written;
  std::int64_t begin = 0, end = 0;  // bytes, where its geometry is of numbers; else both 0
};

void TakeExtent(Operand* operand) {
  const ir::Value& v = *operand->value;
  if (!v.offset.is_constant()) return;
  std::int64_t last = v.offset.constant();
  for (std::size_t d = 0; d < v.sizes.size(); ++d) {
    if (!v.sizes[d].is_constant() || !v.strides[d].is_constant() || v.sizes[d].constant() == 0) return;
    last += (v.sizes[d].constant() - 1) * v.strides[d].constant();
  }
  operand->begin = v.offset.constant() * BytesOf(v);
  operand->end = (last + 1) * BytesOf(v);
}

// Those that may share memory with another stand beside each other.
std::vector<Operand> OperandsOf(const ir::Graph& graph, const OpTraits& traits, c10::ArrayRef<c10::IValue> args) {
  std::vector<Operand> operands;
  const auto add = [&](const c10::IValue& v, std::size_t argument, int place) {
    const FakeImpl* fake = v.isTensor() ? AsFake(v.toTensor()) : nullptr;
    if (fake == nullptr) return;
    const ir::Value& value = graph.value(fake->value());
    if (value.storage < 0) return;
    operands.push_back({&v.toTensor(), &value, argument, place, traits.op->arguments()[argument].written});
    TakeExtent(&operands.back());
  };
  for (std::size_t i = 0; i < args.size(); ++i) {
    if (args[i].isTensor()) add(args[i], i, -1);
    if (!args[i].isTensorList() && traits.op->arguments()[i].type != ir::ArgType::kOptionalTensorList) continue;
    if (!args[i].isList()) continue;
    int place = 0;
    for (const c10::IValue& e : args[i].toListRef()) add(e, i, place++);
  }
  std::stable_sort(operands.begin(), operands.end(),
                   [](const Operand& a, const Operand& b) { return a.value->storage < b.value->storage; });
  return operands;
}

// torch.mv(m, v, out=t) is addmv with t for what is added to and for the result, as addmv_ has it.
bool IsInPlace(const OpTraits& traits, const Operand& written, const Operand& other) {
  if (other.argument != 0 || !other.tensor->is_same(*written.tensor)) return false;
  const std::string& name = traits.handle.operator_name().name;
  return c10::Dispatcher::singleton().findSchema({name + "_", ""}).has_value();
}

// Whether the operator reads of `other` just where it writes.
bool Meet(const ir::ExprTable& exprs, const OpTraits& traits, const Operand& written, const Operand& other) {
  if (other.written || written.place != other.place || !InStep(exprs, *written.value, *other.value)) return false;
  return GoesInStep(traits) || IsInPlace(traits, written, other);
}

bool HasHistory(c10::ArrayRef<c10::IValue> args) {
  if (!at::GradMode::is_enabled()) return false;
  return std::any_of(args.begin(), args.end(), [](const c10::IValue& v) {
    if (!v.isTensorList()) return false;
    const std::vector<at::Tensor> tensors = v.toTensorVector();
    return std::any_of(tensors.begin(), tensors.end(), [](const at::Tensor& t) { return t.requires_grad(); });
  });
}

// An operator that writes an operand and reads another of its memory does so in an order of its kernel's, so that what
// a program without writes computes is not what eager does; or eager refuses it.
void CheckOperands(Recorder& recorder, const OpTraits& traits, c10::ArrayRef<c10::IValue> args) {
  const ir::Graph& graph = recorder.graph();
  const std::vector<Operand> operands = OperandsOf(graph, traits, args);
  for (std::size_t i = 0; i < operands.size(); ++i) {
    for (std::size_t j = i + 1; j < operands.size(); ++j) {
      const bool first = operands[i].written;
      const Operand &written = operands[first ? i : j], &other = operands[first ? j : i];
      const ir::Value &own = *written.value, &read = *other.value;
      if (own.storage != read.storage) break;
      if (!written.written) continue;
      if (written.end > 0 && other.end > 0 && (written.end <= other.begin || other.end <= written.begin)) continue;
      if (own.sizes != read.sizes || own.strides != read.strides || own.offset != read.offset) {
        if (Apart(recorder.sizes(), own, read).Show()) continue;
        GuardPlaces(*written.tensor);
        GuardPlaces(*other.tensor);
      }
      if (Meet(graph.exprs, traits, written, other) || !ShareElements(graph.exprs, own, read)) continue;
      recorder.Break(BreakKind::kMutation, traits, "it reads elsewhere what it writes");
    }
  }
}

}  // namespace

void RecordedWrites::ReleaseHistories() {
  std::vector<at::Tensor> alive;
  for (const auto& written : written_) {
    if (auto fake = written.lock()) alive.emplace_back(std::move(fake));
  }
  tracing::ReleaseHistories(alive);
}

std::int64_t RecordedWrites::CountGeometry(const FakeImpl* input) const {
  return std::count_if(geometry_.begin(), geometry_.end(), [&](const GeometryWrite& w) { return w.input == input; });
}

void RecordedWrites::CheckTensor(Recorder& recorder, const OpTraits& traits, const at::Tensor& t) {
  if (!t.defined()) return;
  const FakeImpl* fake = AsFake(t);
  if (fake == nullptr || recorder.constants().Contains(fake->value())) {
    recorder.Break(BreakKind::kMutation, traits, "a constant of the graph is written");
  }
  if (at::GradMode::is_enabled()) {
    written_.emplace_back(t.getIntrusivePtr());
    if (t.is_view()) written_.emplace_back(t._base().getIntrusivePtr());
  }
  const ir::StorageId storage = recorder.graph().value(fake->value()).storage;
  if (recorder.phase() == ir::Phase::kForward && !recorder.branches().any_open()) {
    uncounted_.Note(t, fake->value(), storage, static_cast<int>(recorder.graph().nodes.size()));
  }
  if (const auto refusal = recorder.inputs().RefusalOfWrite(storage)) {
    recorder.Break(BreakKind::kMutation, traits, std::string(*refusal));
  }
}

void RecordedWrites::Check(Recorder& recorder, const OpTraits& traits, c10::ArrayRef<c10::IValue> args) {
  if (traits.is_foreach && HasHistory(args)) {
    recorder.Break(BreakKind::kHiddenState, traits,
                   "its backward notices writes to tensors that it does not compute with",
                   "call the operator for each tensor");
  }
  if (!traits.op->mutates()) return;
  const auto& schema = traits.op->arguments();
  for (std::size_t i = 0; i < args.size(); ++i) {
    if (!schema[i].written) continue;
    if (args[i].isTensor()) CheckTensor(recorder, traits, args[i].toTensor());
    if (!args[i].isTensorList()) continue;
    for (const c10::IValue& e : args[i].toListRef()) CheckTensor(recorder, traits, e.toTensor());
  }
  CheckOperands(recorder, traits, args);
}

}  // namespace framefuse::tracing
