#include "symbolic/attempt/exported_graph.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "backends/graph/collectives.h"
#include "backends/graph/graph.h"
#include "backends/graph/input_writes.h"
#include "guards/fact.h"
#include "symbolic/capture/capture.h"
#include "symbolic/reconstruct/close.h"

namespace framefuse {
namespace {

class WatchedWork final : public TensorWork {
 public:
  WatchedWork(std::shared_ptr<TensorWork> work, ExportedGraph* exported)
      : work_(std::move(work)), exported_(exported) {}

  bool Run(absl::Span<PyObject* const> inputs, absl::Span<std::int64_t> symbols, std::vector<Ref>* outputs,
           Report* report) const override {
    if (!work_->Run(inputs, symbols, outputs, report)) return false;
    ++exported_->runs;
    exported_->inputs.clear();
    for (PyObject* input : inputs) exported_->inputs.push_back(Ref::Create(input));
    exported_->outputs.clear();
    for (const Ref& output : *outputs) exported_->outputs.push_back(Ref::Create(output.get()));
    return true;
  }
  std::vector<PhaseTime> CompileTimes() const override { return work_->CompileTimes(); }

 private:
  std::shared_ptr<TensorWork> work_;
  ExportedGraph* exported_;
};

bool SameBits(const at::Tensor& a, const at::Tensor& b) {
  if (a.scalar_type() != b.scalar_type() || a.sizes() != b.sizes()) return false;
  const at::Tensor x = a.detach().cpu().contiguous(), y = b.detach().cpu().contiguous();
  return x.nbytes() == 0 || std::memcmp(x.const_data_ptr(), y.const_data_ptr(), x.nbytes()) == 0;
}

// Numbers are written as decimals.
bool SurvivesText(const ir::Graph& graph, const std::string& text) {
  const absl::StatusOr<ir::Graph> read = ir::Parse(text);
  if (!read.ok() || read->constants.size() != graph.constants.size()) return false;
  for (std::size_t i = 0; i < graph.constants.size(); ++i) {
    if (!SameBits(read->constants[i].tensor, graph.constants[i].tensor)) return false;
  }
  return true;
}

class Taker {
 public:
  Taker(Capture& capture, const Closed& closed, ExportedGraph* out)
      : capture_(capture), closed_(closed), entry_(*closed.entry), out_(*out) {}

  void Run() {
    RefuseOfEntry();
    TakeGuards();
    if (closed_.graph.graph == nullptr) return Refuse("it has no tensor operation");
    TakeSymbols();
    TakeGraph(*closed_.graph.graph);
  }

 private:
  void Refuse(std::string why) { out_.refusals.push_back(std::move(why)); }

  std::string NameOf(int input_index) const {
    const SourceId source = capture_.objects().tensor_inputs()[static_cast<std::size_t>(input_index)].source;
    return capture_.reads().sources().Print(source, capture_.frames().SlotNames());
  }

  void RefuseOfEntry() {
    if (entry_.resume) Refuse("its graph breaks");
    for (const Effect& effect : entry_.effects) {
      const char* name = effect.name && PyUnicode_Check(effect.name.get()) ? PyUnicode_AsUTF8(effect.name) : nullptr;
      Refuse(absl::StrCat("it changes what is outside of it: ", EffectName(effect.kind), name != nullptr ? " " : "",
                          name != nullptr ? name : ""));
    }
    if (entry_.end_state) Refuse("it leaves torch's settings (grad mode, autocast …) changed");
    if (entry_.end_exception != kNoRecipe) Refuse("it changes the exception that is being handled");
    if (!entry_.expects.outputs.empty()) Refuse("it raises an error that depends on the values of tensors");
    if (!entry_.expects.warnings.empty()) Refuse("it says a warning");
    if (!entry_.sharded.empty()) Refuse("it takes a DTensor");
    if (!entry_.draws.empty()) Refuse("it draws random numbers of Python's or numpy's");
    const bool returns_sizes =
        absl::c_any_of(entry_.recipes.steps(), [](const RecipeStep& step) { return step.op == RecipeOp::kSize; });
    if (returns_sizes) Refuse("it returns a number that follows from symbolic sizes");
    if (!closed_.graph.gradient_effects.empty()) Refuse("it sets gradients");
    if (!closed_.graph.geometry_effects.empty()) Refuse("it resizes a tensor that it was given");
  }

  Ref TensorAt(SourceId source) const {
    for (const TensorInput& t : capture_.objects().tensor_inputs()) {
      if (t.source == source) return Ref::Create(t.real.get());
    }
    return Ref();
  }

  // Of the program's lines. What has none is about sizes, texts or arrays of numbers, which are as in this call.
  void RefuseValues(const FactLocation& where) {
    const char* file = where.file ? PyUnicode_AsUTF8(where.file) : nullptr;
    if (file == nullptr) return;
    Refuse(absl::StrCat("the values of tensors decide what it does (", file, ":", where.line, ")"));
  }

  void TakeGuards() {
    out_.guards = entry_.guards->PythonText("guards");
    for (const Guard& guard : capture_.reads().guards().guards()) {
      if (guard.kind == GuardKind::kValueOfTensors) RefuseValues(LocationOf(guard.where));
      const bool of_two = guard.kind == GuardKind::kSameAs || guard.kind == GuardKind::kDistinctFrom;
      if (!of_two && guard.kind != GuardKind::kIdentity) continue;
      Ref one = TensorAt(guard.source);
      Ref other = of_two ? TensorAt(static_cast<SourceId>(guard.aux)) : Ref();
      if (one || other) out_.compared.emplace_back(std::move(one), std::move(other));
    }
  }

  void TakeSymbols() {
    const ir::ExprTable& table = capture_.tracer().sizes().expressions();
    const auto& places = capture_.tracer().sizes().symbols();
    for (std::size_t i = 0; i < places.size(); ++i) {
      const ir::Symbol& symbol = table.symbols()[i];
      if (places[i].input_index == tracing::kIsNumberSymbol) {
        Refuse("a number that is no size is symbolic");
        continue;
      }
      if (places[i].of_stride) Refuse("a stride of an argument follows from no size: export with a contiguous one");
      const bool unbacked = places[i].input_index == tracing::kIsUnbackedSymbol;
      const auto index = static_cast<std::size_t>(places[i].input_index);
      Ref tensor = unbacked ? Ref() : Ref::Create(capture_.objects().tensor_inputs()[index].real.get());
      out_.symbols.push_back({symbol.name, std::move(tensor), places[i].dim});
    }
    for (const ir::Dim fact : capture_.tracer().sizes().facts()) {
      if (table.LastUnbacked(fact) < 0) out_.facts.push_back(table.Print(fact));
    }
  }

  void TakeGraph(const ir::Graph& recorded) {
    if (recorded.deferred != nullptr) {
      for (const ir::Dim fact : recorded.deferred->facts) {
        out_.deferred.push_back(recorded.deferred->exprs.Print(fact));
      }
    }
    if (recorded.has_backward()) Refuse("it runs a backward pass");
    if (absl::c_any_of(recorded.nodes, &ir::SpeaksToOthers)) Refuse("it speaks to other processes");
    for (std::size_t i = 0; i < closed_.graph.inputs.size(); ++i) {
      const tracing::TracedInput& in = closed_.graph.inputs[i];
      if (in.input_index < 0) {
        Refuse(absl::StrCat("it reads the gradient of ", NameOf(in.gradient_of)));
        continue;
      }
      const std::string name = NameOf(in.input_index);
      if (in.storage_read || in.storage_offset_read) Refuse(absl::StrCat("it reads the whole storage of ", name));
      if (in.asked_for_grad) Refuse(absl::StrCat("it asks for gradients of ", name));
      if (recorded.inputs[i].mutated) Refuse(absl::StrCat("it writes ", name));
    }
    for (const ir::Output& output : recorded.outputs) {
      if (output.requires_grad) Refuse("its results have gradients");
      if (output.value == ir::kNoValue) Refuse("a result of its graph is undefined");
    }
    ir::Graph graph = recorded;
    for (ir::Value& value : graph.values) value.requires_grad = false;
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
      if (graph.nodes[i].guessed) out_.guessed.push_back(static_cast<int>(i));
    }
    out_.text = ir::Print(graph);
    if (!SurvivesText(graph, out_.text)) Refuse("its graph has a constant without a form as text");
  }

  Capture& capture_;
  const Closed& closed_;
  const CompiledEntry& entry_;
  ExportedGraph& out_;
};

}  // namespace

void ExportedGraph::Take(Capture& capture, const Closed& closed) {
  *this = ExportedGraph();
  Taker(capture, closed, this).Run();
}

std::shared_ptr<TensorWork> ExportedGraph::Watch(std::shared_ptr<TensorWork> work) {
  return std::make_shared<WatchedWork>(std::move(work), this);
}

}  // namespace framefuse
