// DTensors from outside: the graph's input is an alias of the local tensor, and the program gets a DTensor over its
// fake.

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "frame_eval/hook.h"
#include "guards/leaf/tensor.h"
#include "symbolic/entry/sharded_argument.h"
#include "symbolic/journals/break_controller.h"
#include "symbolic/journals/native_boundary.h"
#include "symbolic/journals/object_table.h"
#include "symbolic/journals/read_journal.h"
#include "symbolic/journals/sharded_values.h"
#include "symbolic/messages/graph_break.h"
#include "symbolic/tracing/sharded_tensors.h"

namespace framefuse {
namespace {

// A slot of DTensor's.
SourceId SlotSource(ReadJournal& reads, BorrowedRef sharded, SourceId base, const char* name) {
  const Ref key = Ref::Steal(PyUnicode_InternFromString(name));
  return reads.sources().Intern(SourceKind::kSlotAttr, base, 0, frame_ops::TypeLookup(sharded.type(), key));
}

}  // namespace

bool ObjectTable::MayTakeSharded() {
  const auto refuse = [&](std::string why) {
    return breaks_.BreakFalse(GraphBreakKind::kUnsupportedTensor, std::move(why));
  };
  if (!takes_sharded_) return refuse("a DTensor in a graph for an FX backend");
  if (tracer_.in_branch()) return refuse("a DTensor in a branch of cond or a checkpoint");
  std::string why = WhyNotSharded();
  if (!why.empty()) return refuse(std::move(why));
  // Torch's code sees the dispatcher as it was before the frame.
  const Tracked* dispatcher = FindByOriginal(ShardedDispatcher());
  if (dispatcher != nullptr && dispatcher->mutated()) return refuse("a DTensor whose dispatcher is written");
  GuardShardedState(reads_);
  return true;
}

Value ObjectTable::AdoptSharded(BorrowedRef original, SourceId source) {
  const auto refuse = [&](const char* why) {
    return breaks_.Break(GraphBreakKind::kUnsupportedTensor, absl::StrCat("a DTensor ", why));
  };
  if (!MayTakeSharded()) return Value();
  const Ref local = tracing::LocalOf(original);
  const Ref spec = Ref::Steal(PyObject_GetAttrString(original, "_spec"));
  if (!local || !spec) {
    PyErr_Clear();
    return refuse("without a local tensor");
  }
  Ref entrance, alias;
  {
    const tracing::Tracer::Suspended off;
    entrance = NewEntrance();
    alias = entrance ? Enter(entrance, original) : Ref();
  }
  if (!alias) return Value();
  const bool requires_grad = HasHistory(alias);
  const int index = static_cast<int>(tensor_inputs_.size());
  absl::StatusOr<Ref> fake = tracer_.MakeInput(alias, tracing::InputRole::kParameter, index);
  if (!fake.ok()) return breaks_.Break(GraphBreakKind::kUnsupportedTensor, std::string(fake.status().message()));
  reads_.AddTensor(source, original);
  const SourceId local_source = SlotSource(reads_, original, source, "_local_tensor");
  reads_.AddTensor(local_source, local);
  if (!GuardShardedSpec(reads_, spec, SlotSource(reads_, original, source, "_spec"))) {
    return refuse("with placements that no guard compares");
  }
  Ref inside;
  {
    const HookScope native(HookMode::kOff);
    inside = Ref::Steal(PyObject_CallMethod(entrance, "inside", "OO", fake->get(), original.get()));
  }
  if (!boundary_.Check() || !inside) return Value();
  tensor_inputs_.push_back(TensorInput{local_source, local, *std::move(fake)});
  has_history_from_outside_ = has_history_from_outside_ || requires_grad;
  sharded_inputs_.push_back({index, source, std::move(entrance), inside, tracing::StateOfSharded(inside)});
  tracked_.Add(TrackedKind::kTensor, source, Ref::Create(original), inside);
  return Value{std::move(inside), source};
}

bool ObjectTable::AreShardedAsTheyCame() const {
  for (const ShardedInput& s : sharded_inputs_) {
    if (tracing::StateOfSharded(s.inside) != s.state) return false;
  }
  return true;
}

}  // namespace framefuse
