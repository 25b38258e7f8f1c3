// Recorder::CheckWrites: what may be written, now or later, and whether two operands of one storage have an element in
// common. An operator that writes one of them and reads the other does so in an order of its own, so that what a
// program without writes computes is not what eager does.

#include <ATen/core/grad_mode.h>
#include <c10/core/ScalarType.h>
#include <c10/core/SymInt.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

#include "symbolic/tracing/recorder.h"

namespace framefuse::tracing {
namespace {

// stride * k for a k from `first` to `last`.
struct Term {
  std::int64_t stride, first, last;
};

// Whether a sum of one multiple of each stride is `distance`. Terms come with falling strides, so that few multiples
// leave a rest that the others can make.
class Search {
 public:
  explicit Search(std::vector<Term> terms) : terms_(std::move(terms)), least_(terms_.size() + 1), most_(least_) {
    for (std::size_t i = terms_.size(); i-- > 0;) {
      least_[i] = least_[i + 1] + terms_[i].stride * terms_[i].first;
      most_[i] = most_[i + 1] + terms_[i].stride * terms_[i].last;
    }
  }

  bool Reaches(std::int64_t distance) { return From(0, distance); }

 private:
  bool From(std::size_t i, std::int64_t rest) {
    if (rest < least_[i] || rest > most_[i]) return false;
    if (i == terms_.size() || ++steps_ > kMostSteps) return true;
    const Term& t = terms_[i];
    for (std::int64_t k = std::max(t.first, (rest - most_[i + 1]) / t.stride - 1); k <= t.last; ++k) {
      if (rest - k * t.stride < least_[i + 1]) break;
      if (From(i + 1, rest - k * t.stride)) return true;
    }
    return false;
  }

  static constexpr int kMostSteps = 10'000;  // past them the answer is yes
  std::vector<Term> terms_;
  std::vector<std::int64_t> least_, most_;
  int steps_ = 0;
};

struct Place {
  std::int64_t offset;
  std::map<std::int64_t, std::int64_t, std::greater<>> sizes;  // by stride: how many further elements
  bool empty;
};

Place PlaceOf(const ir::ExprTable& exprs, const ir::Value& v) {
  Place place{exprs.Hint(v.offset), {}, false};
  for (std::size_t d = 0; d < v.sizes.size(); ++d) {
    const std::int64_t size = exprs.Hint(v.sizes[d]), stride = exprs.Hint(v.strides[d]);
    place.empty = place.empty || size == 0;
    if (size > 1 && stride > 0) place.sizes[stride] += size - 1;
  }
  return place;
}

bool InStep(const ir::ExprTable& exprs, const ir::Value& a, const ir::Value& b) {
  if (a.sizes.size() != b.sizes.size() || exprs.Hint(a.offset) != exprs.Hint(b.offset)) return false;
  for (std::size_t d = 0; d < a.sizes.size(); ++d) {
    const std::int64_t size = exprs.Hint(a.sizes[d]);
    if (size != exprs.Hint(b.sizes[d])) return false;
    if (size > 1 && exprs.Hint(a.strides[d]) != exprs.Hint(b.strides[d])) return false;
  }
  return true;
}

// Whether element meets element where the values have one geometry. Not so where indices say which element is written:
// eager refuses such an operand.
bool GoesInStep(const ir::Op& op) {
  for (const char* by_index : {"aten.index_", "aten._index_put", "aten.scatter", "aten.put_", "aten.masked_scatter"}) {
    if (op.name().starts_with(by_index)) return false;
  }
  return true;
}

// Of values of one storage.
bool ShareElements(const ir::ExprTable& exprs, const ir::Value& a, const ir::Value& b) {
  if (c10::elementSize(a.dtype) != c10::elementSize(b.dtype)) return false;
  const Place of_a = PlaceOf(exprs, a), of_b = PlaceOf(exprs, b);
  if (of_a.empty || of_b.empty) return false;
  std::map<std::int64_t, Term, std::greater<>> terms;
  for (const auto& [stride, more] : of_a.sizes)
    terms.try_emplace(stride, Term{stride, 0, 0}).first->second.last += more;
  for (const auto& [stride, more] : of_b.sizes)
    terms.try_emplace(stride, Term{stride, 0, 0}).first->second.first -= more;
  std::vector<Term> list;
  list.reserve(terms.size());
  for (const auto& [stride, term] : terms) list.push_back(term);
  return Search(std::move(list)).Reaches(of_b.offset - of_a.offset);
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
  bool Separates(const std::vector<std::size_t>& order, std::size_t inner, ir::Dim of_first, ir::Dim of_second) {
    if (sizes_.HintOf(of_first) >= sizes_.HintOf(distance_)) return false;
    if (inner < order.size()) {
      const ir::Dim step = first_.strides[order[inner]], end = algebra_.Add(distance_, of_second);
      if (sizes_.HintOf(end) >= sizes_.HintOf(step)) return false;
      for (std::size_t i = inner; i < order.size(); ++i) {
        const ir::Dim stride = first_.strides[order[i]];
        if (algebra_.Multiply(algebra_.FloorDivide(stride, step), step) != stride) return false;
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

bool HasHistory(c10::ArrayRef<c10::IValue> args) {
  if (!at::GradMode::is_enabled()) return false;
  return std::any_of(args.begin(), args.end(), [](const c10::IValue& v) {
    if (!v.isTensorList()) return false;
    const std::vector<at::Tensor> tensors = v.toTensorVector();
    return std::any_of(tensors.begin(), tensors.end(), [](const at::Tensor& t) { return t.requires_grad(); });
  });
}

}  // namespace

void Recorder::CheckWrites(const OpTraits& traits, c10::ArrayRef<c10::IValue> args) {
  if (traits.is_foreach && HasHistory(args)) {
    Break(BreakKind::kHiddenState, traits, "its backward notices writes to tensors that it does not compute with",
          "call the operator for each tensor");
  }
  if (!traits.op->mutates()) return;
  const auto& schema = traits.op->arguments();
  auto check = [&](const at::Tensor& t) {
    if (!t.defined()) return;
    FakeImpl* fake = AsFake(t);
    if (fake == nullptr || constant_values_.contains(fake->value())) {
      Break(BreakKind::kMutation, traits, "a constant of the graph is written");
    }
    const ir::StorageId storage = graph_.value(fake->value()).storage;
    if (!input_memory_.Write(storage)) {
      Break(BreakKind::kMutation, traits, "the memory of an input is that of another input's storage, too");
    }
    // Eager refuses some of these writes, by the version counter that some aliases have.
    if (inference_storages_.contains(storage) && !c10::InferenceMode::is_enabled()) {
      Break(BreakKind::kMutation, traits, "an inference tensor is written outside of inference mode");
    }
  };
  for (std::size_t i = 0; i < args.size(); ++i) {
    if (!schema[i].written) continue;
    if (args[i].isTensor()) {
      check(args[i].toTensor());
      CheckOperandsOf(args[i].toTensor(), traits, args);
    }
    if (args[i].isTensorList()) {
      for (const c10::IValue& e : args[i].toListRef()) check(e.toTensor());
    }
  }
}

// What an operator reads of memory that it writes in the same step depends on its kernel's order, or eager refuses it.
void Recorder::CheckOperandsOf(const at::Tensor& written, const OpTraits& traits, c10::ArrayRef<c10::IValue> args) {
  const ir::Value& own = graph_.value(AsFake(written)->value());
  for (std::size_t i = 0; i < args.size(); ++i) {
    const c10::IValue& v = args[i];
    if (!v.isTensor() || !v.toTensor().defined() || AsFake(v.toTensor()) == nullptr) continue;
    if (traits.op->arguments()[i].written && v.toTensor().is_same(written)) continue;
    const ir::Value& other = graph_.value(AsFake(v.toTensor())->value());
    if (other.storage < 0 || other.storage != own.storage) continue;
    if (other.sizes != own.sizes || other.strides != own.strides || other.offset != own.offset) {
      if (Apart(*sizes_, own, other).Show()) continue;
      GuardPlaces(written);
      GuardPlaces(v.toTensor());
    }
    if (GoesInStep(*traits.op) && InStep(graph_.exprs, own, other)) continue;
    if (ShareElements(graph_.exprs, own, other)) {
      Break(BreakKind::kMutation, traits, "it reads elsewhere what it writes");
    }
  }
}

}  // namespace framefuse::tracing
