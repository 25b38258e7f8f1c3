#include "symbolic/reconstruct/close.h"

#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "frame_eval/bytecode/decode.h"
#include "frame_eval/bytecode/liveness.h"
#include "symbolic/frames/user_stack.h"
#include "symbolic/messages/code_text.h"
#include "symbolic/reconstruct/collect_effects.h"
#include "symbolic/reconstruct/recipe_builder.h"
#include "symbolic/reconstruct/written_numbers.h"

namespace framefuse {
namespace {

// Code that can look at its frame's variables by name keeps all of them.
bool SeesAllLocals(PyCodeObject* code) {
  static const char* const kNames[] = {"locals",     "vars",      "dir",          "eval",  "exec",
                                       "breakpoint", "_getframe", "currentframe", "stack", "super"};
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(code->co_names); ++i) {
    for (const char* name : kNames) {
      if (PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(code->co_names, i), name) == 0) return true;
    }
  }
  return false;
}

class ChainCloser {
 public:
  ChainCloser(Capture& capture, RecipeBuilder& recipes) : capture_(capture), recipes_(recipes) {}

  absl::Status AddFrame(Activation& act, bool innermost, std::vector<ResumeFrame>* frames, Completion next) {
    PyCodeObject* code = frame_ops::Code(act.frame);
    ResumeFrame f;
    const Instruction& instruction = BytecodeOf(code)->At(act.instruction);
    f.call_instruction = instruction.index;
    f.push_null = !innermost && CallResultOf(instruction) == CallResult::kPushedBesideNull;
    f.next_instruction = innermost ? act.instruction : act.next_instruction;
    f.stack_depth = innermost ? act.stack_depth : act.resume_depth;
    f.completion = next;
    const bool root = act.completion == Completion::kRoot;
    if (!root) {
      absl::StatusOr<RecipeId> function = recipes_.Of(reinterpret_cast<PyObject*>(frame_ops::Function(act.frame)));
      if (!function.ok()) return function.status();
      f.function = *function;
      if (frame_ops::Locals(act.frame) != nullptr) {
        return MakeGraphBreak(GraphBreakKind::kNoRecipe, "the body of a class");
      }
    }
    const int locals = frame_ops::SlotCount(code);
    const Liveness& liveness = LivenessOf(code);
    const bool all_live = SeesAllLocals(code);
    PyObject** slots = frame_ops::Slots(act.frame);
    for (int i = 0; i < locals + f.stack_depth; ++i) {
      const SourceId source = act.sources[static_cast<std::size_t>(i)];
      if (root && IsStillThere(i, source)) continue;
      // An outer frame goes on after its call, but its handler may be entered from the call itself.
      // Cells stay: frame objects look through free variables' slots without asking whether they are set.
      const bool live = i >= locals || all_live || IsCellSlot(code, i) || liveness.IsLive(act.instruction, i) ||
                        (!innermost && liveness.IsLive(f.next_instruction, i));
      SlotRecipe slot{i, kNoRecipe};
      // A class is in its bases' __subclasses__() as long as it lives.
      const bool stays = live || capture_.made().IsMade(slots[i]);
      if (slots[i] != nullptr && (stays || IsFree(slots[i]) || ShouldStay(slots[i], source))) {
        absl::StatusOr<RecipeId> value = recipes_.Of(slots[i], source);
        if (!value.ok()) {
          return MakeGraphBreak(GraphBreakKind::kNoRecipe,
                                absl::StrCat(value.status().message(), " in ", NameOf(code)));
        }
        slot.value = *value;
      }
      if (root || i >= locals || slot.value != kNoRecipe) f.slots.push_back(slot);
    }
    frames->push_back(std::move(f));
    return absl::OkStatus();
  }

 private:
  // The root's slot holds what it held when the attempt began, in every call: the real frame need not be written.
  bool IsStillThere(int slot, SourceId source) const {
    if (source == kUnadopted) return true;
    PyCodeObject* code = frame_ops::Code(capture_.frames().real_frame());
    return slot < frame_ops::SlotCount(code) + frame_ops::StackDepth(capture_.frames().real_frame()) &&
           source == capture_.reads().sources().Local(slot);
  }
  // Costs nothing to keep where nobody but a look at the frame's locals can tell.
  bool IsFree(BorrowedRef value) const {
    const Tracked* t = capture_.objects().Find(value);
    return IsLeaf(value) || (t != nullptr && t->source != kNoSource);
  }

  // Tried with a builder of its own: a failure would leave half a recipe.
  bool ShouldStay(BorrowedRef value, SourceId source) const {
    return EndIsNoticed(value) && RecipeBuilder(capture_).Of(value, source).ok();
  }
  // Variables that are not read again hold their objects until the frame ends; weak references tell.
  bool EndIsNoticed(BorrowedRef value) const {
    constexpr int kMostVisited = 64;
    std::vector<PyObject*> rest = {value.get()};
    for (int visited = 0; !rest.empty() && visited < kMostVisited; ++visited) {
      PyObject* o = rest.back();
      rest.pop_back();
      if (tracing::Tracer::IsFake(o) || IsLeaf(o)) continue;
      if (PyType_SUPPORTS_WEAKREFS(Py_TYPE(o)) && !PyModule_Check(o)) return true;
      if (!PyList_CheckExact(o) && !PyTuple_CheckExact(o) && !PyDict_CheckExact(o) && !PyCell_Check(o)) continue;
      Py_TYPE(o)->tp_traverse(
          o,
          [](PyObject* child, void* list) {
            static_cast<std::vector<PyObject*>*>(list)->push_back(child);
            return 0;
          },
          &rest);
    }
    return false;
  }

  Capture& capture_;
  RecipeBuilder& recipes_;
};

absl::StatusOr<ResumePoint> BuildResume(Capture& capture, Activation& innermost, RecipeBuilder& recipes) {
  ResumePoint resume;
  ChainCloser closer(capture, recipes);
  const std::vector<Activation*> chain = capture.frames().all();
  for (std::size_t i = 0; i < chain.size(); ++i) {
    const bool last = chain[i] == &innermost;
    const Completion next = last ? Completion::kPush : chain[i + 1]->completion;
    if (absl::Status s = closer.AddFrame(*chain[i], last, &resume.frames, next); !s.ok()) return s;
    if (!last && next == Completion::kInit) {
      absl::StatusOr<RecipeId> pending = recipes.Of(chain[i + 1]->pending_result);
      if (!pending.ok()) return pending.status();
      resume.frames.back().pending = *pending;
    }
  }
  return resume;
}

// kNoRecipe: the handled exception is the one at the start.
absl::StatusOr<RecipeId> EndException(Capture& capture, RecipeBuilder& recipes) {
  const Ref handled = capture.HandledException();
  if (handled.get() == capture.start_exception().get()) return kNoRecipe;
  absl::StatusOr<RecipeId> end = recipes.Of(handled ? handled : Ref::Create(Py_None));
  if (!end.ok()) return MakeGraphBreak(GraphBreakKind::kNoRecipe, "an exception that is being handled");
  return *end;
}

Ref ArgumentOf(const tracing::GeometryArgument& a) {
  if (!a.is_list) return Ref::Steal(PyLong_FromLongLong(a.numbers[0]));
  Ref list = Ref::Steal(PyTuple_New(static_cast<Py_ssize_t>(a.numbers.size())));
  for (std::size_t i = 0; i < a.numbers.size(); ++i) {
    PyTuple_SET_ITEM(list.get(), static_cast<Py_ssize_t>(i), PyLong_FromLongLong(a.numbers[i]));
  }
  return list;
}

Effect CallOfMethod(Capture& capture, const tracing::GeometryEffect& g, RecipeBuilder& recipes) {
  const Ref arguments = Ref::Steal(PyTuple_New(static_cast<Py_ssize_t>(g.arguments.size())));
  for (std::size_t i = 0; i < g.arguments.size(); ++i) {
    PyTuple_SET_ITEM(arguments.get(), static_cast<Py_ssize_t>(i), ArgumentOf(g.arguments[i]).release());
  }
  Effect e;
  e.kind = EffectKind::kCallMethod;
  e.target = recipes.FromSource(capture.objects().tensor_inputs()[static_cast<std::size_t>(g.input_index)].source);
  e.key = recipes.Constant(arguments);
  e.name = Ref::Steal(PyUnicode_InternFromString(g.method.c_str()));
  return e;
}

// DTensors from outside are read and no more.
absl::Status CheckSharded(Capture& capture, const tracing::TracedGraph& traced) {
  if (!capture.objects().AreShardedAsTheyCame()) {
    return MakeGraphBreak(GraphBreakKind::kTensorMutation, "a DTensor from outside is changed");
  }
  for (const ShardedInput& s : capture.objects().sharded_inputs()) {
    for (std::size_t i = 0; i < traced.inputs.size(); ++i) {
      if (traced.inputs[i].input_index != s.input || !traced.graph->inputs[i].mutated) continue;
      return MakeGraphBreak(GraphBreakKind::kTensorMutation, "the local tensor of a DTensor from outside is written");
    }
  }
  return absl::OkStatus();
}

// All of them, for each leaves its generator in another state.
void AddDraws(Capture& capture, RecipeBuilder& recipes, std::vector<DrawnNumber>& draws) {
  tracing::Numbers& numbers = capture.tracer().numbers();
  for (const RandomDraws::One& one : capture.draws().all()) {
    DrawnNumber& number = draws.emplace_back();
    number.generator = recipes.FromSource(capture.objects().Find(one.generator)->source);
    number.method = one.method;
    for (const Ref& a : one.args) {
      const std::optional<ir::Dim> symbolic = numbers.IsSymbolic(a) ? numbers.Find(a) : std::nullopt;
      const bool changes = symbolic && !symbolic->is_constant();
      number.arguments.push_back({changes ? Ref() : a, changes ? symbolic->expr : ir::kNoExpr});
    }
    number.names = one.kwnames;
    number.is_float = one.is_float;
  }
}

Ref GradientOf(BorrowedRef fake) {
  return Ref::Steal(THPVariable_Wrap(THPVariable_Unpack(fake.get()).unsafeGetTensorImpl()->grad()));
}

absl::StatusOr<Closed> Finish(Capture& capture, RecipeBuilder recipes, std::unique_ptr<CompiledEntry> entry,
                              bool build_graph) {
  if (capture.writes().open_ranges() > 0)
    return MakeGraphBreak(GraphBreakKind::kNoRecipe,
                          "an open range of the profiler, or a lock of the library that is held");
  absl::StatusOr<std::vector<Effect>> effects = CollectEffects(capture, recipes);
  if (!effects.ok()) return effects.status();
  entry->effects = *std::move(effects);
  entry->written_numbers = WrittenNumbers(capture);
  entry->expects.warnings = capture.writes().warnings();
  const std::vector<DeferredWarning>& by_numpy = recipes.arrays().warnings();
  entry->expects.warnings.insert(entry->expects.warnings.end(), by_numpy.begin(), by_numpy.end());
  entry->expects.read = capture.reads().sources().size();
  absl::StatusOr<RecipeId> handled = EndException(capture, recipes);
  if (!handled.ok()) return handled.status();
  entry->end_exception = *handled;
  AddDraws(capture, recipes, entry->draws);
  for (const ExpectedTruths::Expected& e : capture.expected().all()) {
    entry->expects.outputs.push_back(e.how);
    entry->expects.outputs.back().output = recipes.OutputOf(e.tensor);
  }
  Closed closed;
  std::vector<BorrowedRef> outputs;
  for (const Ref& t : recipes.tensors()) outputs.emplace_back(t.get());
  closed.fx_outputs = recipes.tensors();
  const TorchState end = TorchState::Current();
  if (!(end == capture.start_state())) entry->end_state = end;
  const std::optional<TorchState>& run = capture.writes().run_state();
  if (run && !run->SameForOperators(capture.start_state())) entry->run_state = run;
  capture.tracer().around().set_on_the_way = {};  // a backward runs under what is set by then
  if (build_graph) {
    absl::StatusOr<tracing::TracedGraph> graph = capture.autograd().CloseGraph(outputs);
    if (IsGraphBreak(graph.status())) return graph.status();
    if (!graph.ok()) {
      const std::optional<tracing::TensorBreak>& pending = capture.tracer().PendingBreak();
      return MakeGraphBreak(pending ? BreakKindOf(*pending) : GraphBreakKind::kTensorMutation,
                            std::string(graph.status().message()));
    }
    closed.graph = *std::move(graph);
    if (absl::Status s = CheckSharded(capture, closed.graph); !s.ok()) return s;
    for (const tracing::TracedInput& in : closed.graph.inputs) {
      if (!capture.fx().keep_values() || !in.asked_for_grad) continue;
      return MakeGraphBreak(GraphBreakKind::kAutograd, "requires_grad_() of an input in a graph for an FX backend");
    }
    for (const tracing::GeometryEffect& g : closed.graph.geometry_effects) {
      entry->effects.push_back(CallOfMethod(capture, g, recipes));
    }
    for (const tracing::GradientEffect& g : closed.graph.gradient_effects) {
      const TensorInput& input = capture.objects().tensor_inputs()[static_cast<std::size_t>(g.input_index)];
      if (g.output >= 0) closed.fx_outputs.push_back(GradientOf(input.fake));
      const SourceId tensor = input.source;
      Effect e;
      e.kind = EffectKind::kSetGrad;
      e.target = recipes.FromSource(tensor);
      e.value = g.output < 0 ? recipes.Constant(Py_None) : recipes.PlanOutput(g.output);
      entry->effects.push_back(std::move(e));
    }
  }
  entry->recipes = std::move(recipes).Finish();
  closed.entry = std::move(entry);
  return closed;
}

}  // namespace

absl::StatusOr<Closed> CloseAtReturn(Capture& capture, BorrowedRef result, SourceId source, bool build_graph) {
  RecipeBuilder recipes(capture);
  auto entry = std::make_unique<CompiledEntry>();
  absl::StatusOr<RecipeId> value = recipes.Of(result, source);
  if (!value.ok()) return value.status();
  entry->result = *value;
  return Finish(capture, std::move(recipes), std::move(entry), build_graph);
}

absl::StatusOr<Closed> CloseAtStop(Capture& capture, Activation& innermost, const GraphBreakReason& reason,
                                   bool build_graph) {
  RecipeBuilder recipes(capture);
  auto entry = std::make_unique<CompiledEntry>();
  absl::StatusOr<ResumePoint> resume = BuildResume(capture, innermost, recipes);
  if (!resume.ok()) return resume.status();
  resume->reason = reason;
  entry->resume = *std::move(resume);
  std::vector<StoppedFrame> stopped;
  for (const Activation* act : capture.frames().all()) {
    stopped.push_back({RefOf<PyCodeObject>::Create(frame_ops::Code(act->frame)), CallsModule(act->frame)});
  }
  absl::StatusOr<Closed> closed = Finish(capture, std::move(recipes), std::move(entry), build_graph);
  if (closed.ok()) closed->stopped = std::move(stopped);
  return closed;
}

bool IsRebuildable(Capture& capture, Activation& innermost) {
  if (capture.writes().open_ranges() > 0) return false;
  RecipeBuilder recipes(capture);
  if (!BuildResume(capture, innermost, recipes).ok() || !EndException(capture, recipes).ok()) return false;
  return CollectEffects(capture, recipes).ok();
}

BreakRecord BreakAtReturn(Capture& capture, PyCodeObject* code, const absl::Status& status) {
  BreakRecord record;
  static_cast<CodePlace&>(record.reason) = PlaceOf(capture.frames().real_frame(), capture.last_root_instruction());
  record.reason.kind = GraphBreakKindOf(status);
  record.reason.context = std::string(status.message());
  record.position = CapturePosition{capture.breaks().control().executed - 1, RefOf<PyCodeObject>::Create(code),
                                    capture.last_root_instruction()};
  return record;
}

}  // namespace framefuse
