#include "symbolic/tracing/node_histories.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "backends/graph/operators.h"
#include "symbolic/tracing/autograd_bridge.h"
#include "symbolic/tracing/break.h"
#include "symbolic/tracing/counted_reads.h"
#include "symbolic/tracing/fake_tensor.h"

namespace framefuse::tracing {
namespace {

template <typename F>
void ForEachTensor(c10::ArrayRef<c10::IValue> values, F&& f) {
  for (const c10::IValue& v : values) {
    if (v.isTensor() && v.toTensor().defined()) f(v.toTensor());
    if (!v.isList()) continue;
    for (const c10::IValue& e : v.toListRef()) {
      if (e.isTensor() && e.toTensor().defined()) f(e.toTensor());
    }
  }
}

bool AnyHasHistory(c10::ArrayRef<c10::IValue> args) {
  bool any = false;
  ForEachTensor(args, [&](const at::Tensor& t) { any = any || t.requires_grad(); });
  return any;
}

bool IsDetached(const at::Tensor& t) {
  const FakeImpl* fake = AsFake(t);
  if (fake == nullptr || !fake->has_history() || t.requires_grad()) return false;
  return fake->is_copy() || fake->is_detached();
}

// Also of an x without a history: who has saved it does not ask for the version of x.
bool IsReadByData(const at::Tensor& t) {
  const FakeImpl* fake = AsFake(t);
  return fake != nullptr && fake->is_copy() && !t.requires_grad();
}

bool IsReadWithoutHistory(const at::Tensor& t) { return IsDetached(t) || IsReadByData(t); }

void MarkDetached(const OpTraits& traits, c10::ArrayRef<c10::IValue> args, ir::Node* node) {
  std::size_t use = 0;
  const auto mark = [&](const at::Tensor& t) {
    if (IsDetached(t) && use >= 64)
      ThrowBreak(BreakKind::kMutation, traits.op->name(), "a list of more than 64 tensors has x.data of one");
    if (IsReadWithoutHistory(t) && use < 64) node->detached_uses |= std::uint64_t{1} << use;
    if (IsReadByData(t) && use < 64) node->uncounted_uses |= std::uint64_t{1} << use;
    ++use;
  };
  for (std::size_t i = 0; i < node->args.size(); ++i) {
    const ir::Arg& a = node->args[i];
    if (a.kind == ir::Arg::Kind::kValue) args[i].isTensor() ? mark(args[i].toTensor()) : void(++use);
    if (a.kind != ir::Arg::Kind::kValueList) continue;
    for (std::size_t k = 0; k < a.values.size(); ++k) {
      if (a.values[k] != ir::kNoValue) mark(args[i].toListRef()[k].toTensor());
    }
  }
}

}  // namespace

void NoteHistories(const OpTraits& traits, c10::ArrayRef<c10::IValue> args, ir::Node* node) {
  CountedReads::Mark(args, node);
  const bool forward = node->phase == ir::Phase::kForward;
  if (node->history != ir::History::kKept || traits.handle.schema().getNamespace() != "aten") return;
  if (forward && (!at::GradMode::is_enabled() || FunctionForwardScope::IsOpen())) return;
  MarkDetached(traits, args, node);  // in the backward, what was saved so
  if (!forward || !node->op->mutates()) return;
  if (!AnyHasHistory(args)) {
    // What is written has a history perhaps, and the tensor at hand has none.
    node->history = ir::History::kCut;
    return;
  }
  for (std::size_t i = 0; i < args.size(); ++i) {
    if (!traits.op->arguments()[i].written) continue;
    ForEachTensor(args.slice(i, 1), [&](const at::Tensor& t) {
      if (!IsDetached(t) || !AsFake(t)->is_copy()) return;
      ThrowBreak(BreakKind::kMutation, traits.op->name(), "x.data is written with a tensor that has a history",
                 "write to x.detach()");
    });
  }
}

void NoteDetachedInPlace(BorrowedRef fake) {
  if (FakeImpl* impl = AsFake(THPVariable_Unpack(fake.get()))) impl->Detach();
}

bool HaveHistories(const ir::Node& node, c10::ArrayRef<c10::IValue> args) {
  if (node.history != ir::History::kKept || node.phase != ir::Phase::kForward) return false;
  if (ir::Is(node.op, ir::OpName::kDetach)) return false;
  if (at::GradMode::is_enabled() && !FunctionForwardScope::IsOpen()) return AnyHasHistory(args);
  // Results of a function will have one. One that is written in C++ runs an operator of its own so (a checkpoint's).
  const bool in_function = FunctionForwardScope::IsOpen() || node.op->schema().getNamespace() != "aten";
  bool any = false;
  ForEachTensor(args, [&](const at::Tensor& t) {
    any = any || t.requires_grad() || (AsFake(t) != nullptr && AsFake(t)->has_history());
  });
  return in_function && any;
}

void GiveHistories(c10::ArrayRef<c10::IValue> results) {
  ForEachTensor(results, [](const at::Tensor& t) {
    FakeImpl* fake = AsFake(t);
    if (fake != nullptr && (t.is_floating_point() || t.is_complex())) fake->GiveHistory();
  });
}

}  // namespace framefuse::tracing
