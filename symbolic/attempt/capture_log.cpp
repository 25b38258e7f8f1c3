#include "symbolic/attempt/capture_log.h"

#include <torch/csrc/Dtype.h>
#include <torch/csrc/autograd/python_variable.h>

#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/logging.h"
#include "common/trace.h"
#include "guards/text.h"
#include "symbolic/attempt/call_trace.h"
#include "symbolic/frames/user_stack.h"
#include "symbolic/messages/code_text.h"
#include "symbolic/messages/trace_text.h"

namespace framefuse {
namespace {

constexpr int kMaxDepth = 4;

std::string TitleOf(PyCodeObject* code) {
  return absl::StrCat(QualifiedNameOf(code), " (", FileNameOf(code), ":", code->co_firstlineno, ")");
}

std::string Title(frame_ops::Frame* frame) { return TitleOf(ShownCode(frame_ops::View(frame))); }

// ---------------------------------------------------------------- values that are rebuilt

class Values {
 public:
  Values(Capture& capture, const RecipeProgram& recipes)
      : sources_(capture.reads().sources()), slot_names_(capture.frames().SlotNames()), recipes_(recipes) {}

  std::string Text(RecipeId id, int depth = 0) const {
    if (id == kNoRecipe) return "-";
    const RecipeStep& step = recipes_.steps()[static_cast<std::size_t>(id)];
    const auto all = [&](std::size_t from) { return Join(step.children, from, depth); };
    switch (step.op) {
      case RecipeOp::kConstant:
        return ObjectText(step);
      case RecipeOp::kSource:
        return sources_.Print(step.index, slot_names_);
      case RecipeOp::kTensor:
        return absl::StrCat("graph_output[", step.index, "]");
      case RecipeOp::kSize:
        return absl::StrCat("size[", step.index, "]");
      case RecipeOp::kTuple:
        return absl::StrCat("(", all(0), ")");
      case RecipeOp::kTupleOf:
      case RecipeOp::kSet:
      case RecipeOp::kCall:
      case RecipeOp::kNumpy:
        return absl::StrCat(ObjectText(step), "(", all(0), ")");
      case RecipeOp::kList:
        return absl::StrCat("[", Filled(id, RecipeOp::kFillList, depth), "]");
      case RecipeOp::kDict:
        return absl::StrCat("{", Filled(id, RecipeOp::kFillDict, depth), "}");
      case RecipeOp::kInstance:
        return absl::StrCat("a new ", ObjectText(step));
      case RecipeOp::kGetAttr:
        return absl::StrCat(all(0), ".", ObjectText(step));
      case RecipeOp::kInstanceDict:
        return absl::StrCat(all(0), ".__dict__");
      case RecipeOp::kFunction:
        return "a function made in the frame";
      case RecipeOp::kMethod:
        return absl::StrCat("a method of ", step.children.size() > 1 ? Text(step.children[1], depth + 1) : "-");
      case RecipeOp::kCell:
        return absl::StrCat("cell(", Filled(id, RecipeOp::kFillCell, depth), ")");
      case RecipeOp::kDictIterator:
        return absl::StrCat("an iterator over ", all(0), ".", ObjectText(step), "()");
      case RecipeOp::kDeque:
      case RecipeOp::kSlice:
      case RecipeOp::kFillList:
      case RecipeOp::kFillDict:
      case RecipeOp::kFillCell:
      case RecipeOp::kSetAttr:
      case RecipeOp::kSetState:
        break;
    }
    return absl::StrCat("an object of (", all(0), ")");
  }

 private:
  static std::string ObjectText(const RecipeStep& step) {
    const BorrowedRef object = step.object.get();
    if (object && THPDtype_Check(object.get())) {
      return absl::StrCat("torch.", reinterpret_cast<THPDtype*>(object.get())->name);
    }
    return object ? ReprText(object) : "-";
  }

  // `pairs`: of keys and values.
  std::string Join(const std::vector<RecipeId>& ids, std::size_t from, int depth, bool pairs = false) const {
    if (depth >= kMaxDepth) return "…";
    std::string text;
    for (std::size_t i = from; i < ids.size(); ++i) {
      const bool is_value = pairs && (i - from) % 2 == 1;
      absl::StrAppend(&text, i == from ? "" : is_value ? ": " : ", ", Text(ids[i], depth + 1));
    }
    return text;
  }

  // What a container that is made empty is filled with.
  std::string Filled(RecipeId container, RecipeOp fill, int depth) const {
    for (const RecipeStep& step : recipes_.steps()) {
      if (step.op == fill && !step.children.empty() && step.children[0] == container) {
        return Join(step.children, 1, depth, fill == RecipeOp::kFillDict);
      }
    }
    return "";
  }

  const SourceTable& sources_;
  std::vector<std::string> slot_names_;
  const RecipeProgram& recipes_;
};

// ---------------------------------------------------------------- effects

std::string EffectText(const Effect& e, const Values& values) {
  const std::string target = values.Text(e.target);
  const std::string name = e.name && PyUnicode_Check(e.name.get()) ? PlainText(e.name) : "";
  const auto key = [&] { return e.key != kNoRecipe ? values.Text(e.key) : absl::StrCat("'", name, "'"); };
  switch (e.kind) {
    case EffectKind::kSetAttr:
    case EffectKind::kSetClassAttr:
      return absl::StrCat(target, ".", name, " = ", values.Text(e.value));
    case EffectKind::kDeleteAttr:
      return absl::StrCat("del ", target, ".", name);
    case EffectKind::kSetItem:
    case EffectKind::kStoreGlobal:
      return absl::StrCat(target, "[", key(), "] = ", values.Text(e.value));
    case EffectKind::kDeleteItem:
    case EffectKind::kDeleteGlobal:
      return absl::StrCat("del ", target, "[", key(), "]");
    case EffectKind::kAddElement:
      return absl::StrCat(target, ".add(", key(), ")");
    case EffectKind::kDiscardElement:
      return absl::StrCat(target, ".discard(", key(), ")");
    case EffectKind::kReplaceContents:
      return absl::StrCat("contents of ", target, " = ", values.Text(e.value));
    case EffectKind::kExtendList:
      return absl::StrCat(target, ".extend(", values.Text(e.value), ")");
    case EffectKind::kStoreCell:
      return absl::StrCat("contents of ", target, " = ", values.Text(e.value));
    case EffectKind::kSetGrad:
      return absl::StrCat(target, ".grad = ", values.Text(e.value));
    case EffectKind::kCallMethod:
      return absl::StrCat(target, ".", name, "(*", values.Text(e.key), ")");
    case EffectKind::kCallCached:
    case EffectKind::kKeepCached:
    case EffectKind::kSetContext:
      break;
  }
  return absl::StrCat(EffectName(e.kind), " ", target);
}

void LogEffects(const CompiledEntry& entry, const Values& values, frame_ops::Frame* frame) {
  std::string text = absl::StrCat(Title(frame), ": after the graph");
  for (const Effect& e : entry.effects) absl::StrAppend(&text, "\n  ", EffectText(e, values));
  if (entry.effects.empty()) absl::StrAppend(&text, "\n  nothing is written");
  if (entry.result != kNoRecipe) absl::StrAppend(&text, "\n  return ", values.Text(entry.result));
  FF_LOG(kEffects) << text;
}

// ---------------------------------------------------------------- bytecode

// The values that live on in one frame of a resume point.
std::string LiveText(const ResumeFrame& frame, PyCodeObject* code, const Values& values) {
  std::string text;
  for (const SlotRecipe& slot : frame.slots) {
    if (slot.value == kNoRecipe) continue;
    const int locals = frame_ops::SlotCount(code);
    const std::string name = slot.slot < locals ? PlainText(PyTuple_GET_ITEM(code->co_localsplusnames, slot.slot))
                                                : absl::StrCat("stack ", slot.slot - locals);
    absl::StrAppend(&text, "\n      ", name, " = ", values.Text(slot.value));
  }
  return text;
}

// What a capture covers of one frame's instructions, by their starts.
struct Covered {
  int begin = 0;
  int end = 0;
  bool breaks = false;  // at `end`
};

// `|` before instructions that the capture covers, `>` before the one where it ends.
std::string ListingOf(PyCodeObject* code, Covered covered) {
  const Bytecode* bytecode = BytecodeOf(code);
  if (bytecode == nullptr) {
    PyErr_Clear();
    return "";
  }
  std::string text;
  int line = -1;
  for (const Instruction& i : bytecode->instructions()) {
    const int here = LineOf(code, i.index);
    if (here != line && here > 0) absl::StrAppendFormat(&text, "\n  %5d  %s", here, SourceLine(code, here));
    line = here;
    const bool ends_here = covered.breaks && (i.start == covered.end || i.index == covered.end);
    const char* mark = ends_here ? ">" : i.start >= covered.begin && i.start < covered.end ? "|" : " ";
    absl::StrAppendFormat(&text, "\n      %s %5d  %s", mark, i.start * 2, InstructionText(code, *bytecode, i));
  }
  return text;
}

// Up to a break: the instructions of each frame of the program that is under way, and what lives on there.
// `shown`: the code that the log's title names.
std::string StoppedText(const Closed& closed, const Values& values, PyCodeObject* shown, int begin) {
  const std::vector<ResumeFrame>& frames = closed.entry->resume->frames;
  std::string text, live;
  for (std::size_t i = 0; i < frames.size() && i < closed.stopped.size(); ++i) {
    if (closed.stopped[i].calls_module) continue;
    PyCodeObject* const code = closed.stopped[i].code.get();
    const ResumeFrame& f = frames[i];
    const bool innermost = i + 1 == frames.size();
    if (i > 0 && !(text.empty() && code == shown)) absl::StrAppend(&text, "\n  inlined ", TitleOf(code));
    const int end = innermost ? f.next_instruction : f.call_instruction;
    absl::StrAppend(&text, ListingOf(code, {i == 0 ? begin : 0, end, true}));
    absl::StrAppend(&live, "\n    live in ", i == 0 ? "this frame" : QualifiedNameOf(code), " at ",
                    f.next_instruction * 2, ":", LiveText(f, code, values));
  }
  return absl::StrCat(text, "\n  resumes after: ", closed.entry->resume->reason.Text(), live);
}

// Torch's own frames between the call of a module and its forward() are left out.
void LogBytecode(const Closed& closed, const Values& values, frame_ops::Frame* frame) {
  const int begin = frame_ops::NextInstruction(frame);
  PyCodeObject* const shown = ShownCode(frame_ops::View(frame));
  std::string text = TitleOf(shown);
  if (closed.entry->resume) {
    absl::StrAppend(&text, ": captured up to a graph break", StoppedText(closed, values, shown, begin));
  } else if (CallsModule(frame) && !frame_ops::IsStarting(frame)) {
    absl::StrAppend(&text, ": captured to its end\n  what is left of it is torch's call of the module");
  } else {
    const int from = shown == frame_ops::Code(frame) ? begin : 0;
    const int end = std::numeric_limits<int>::max();
    absl::StrAppend(&text, ": captured to its end", ListingOf(shown, {from, end, false}));
  }
  FF_LOG(kBytecode) << text;
}

// ---------------------------------------------------------------- torch-level calls

void LogGraphCode(const FxJournal& journal, const tracing::TracedGraph& graph, frame_ops::Frame* frame) {
  std::string text = absl::StrCat(Title(frame), ": ", journal.nodes().size(), " calls");
  std::string place;
  for (const FxNode& n : journal.nodes()) {
    const bool known = graph.graph != nullptr && n.begin >= 0 && n.begin < static_cast<int>(graph.graph->nodes.size());
    const ir::OriginId id = known ? graph.graph->nodes[static_cast<std::size_t>(n.begin)].origin : -1;
    const ir::Origin* origin = id >= 0 ? &graph.graph->origins[static_cast<std::size_t>(id)] : nullptr;
    if (origin != nullptr && origin->line > 0) {
      std::string here = absl::StrCat(origin->file, ":", origin->line, " in ", origin->function, ": ", origin->source);
      if (here != place) absl::StrAppend(&text, "\n  # ", here);
      place = std::move(here);
    }
    absl::StrAppend(&text, "\n  ", CallText(n));
  }
  FF_LOG(kGraphCode) << text;
}

}  // namespace

std::vector<Ref> OperationsOf(const FxJournal& journal) {
  std::vector<Ref> operations;
  for (const FxNode& n : journal.nodes()) {
    if (n.op == FxNode::Op::kGetAttr) continue;
    Ref target = n.target;
    if (PyUnicode_Check(n.target.get())) {
      Ref method = Ref::Steal(PyObject_GetAttr(THPVariableClass, n.target));
      PyErr_Clear();
      if (method) target = std::move(method);
    }
    operations.push_back(std::move(target));
  }
  return operations;
}

bool WantsGraphText() { return LogEnabled(LogArtifact::kGraph) || TraceEnabled(); }

void LogCapture(Capture& capture, const Closed& closed, frame_ops::Frame* frame) {
  if (LogEnabled(LogArtifact::kGraphCode)) LogGraphCode(capture.fx(), closed.graph, frame);
  if (TraceEnabled()) closed.entry->trace_calls = TraceCalls(capture.fx(), closed.graph);
  if (!LogEnabled(LogArtifact::kEffects) && !LogEnabled(LogArtifact::kBytecode)) return;
  const Values values(capture, closed.entry->recipes);
  if (LogEnabled(LogArtifact::kEffects)) LogEffects(*closed.entry, values, frame);
  if (LogEnabled(LogArtifact::kBytecode)) LogBytecode(closed, values, frame);
}

}  // namespace framefuse
