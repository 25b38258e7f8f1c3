#include "symbolic/entry/compiled_entry.h"

#include <ATen/record_function.h>

#include <memory>
#include <vector>

#include "absl/base/attributes.h"
#include "absl/base/optimization.h"
#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "common/coverage.h"
#include "frame_eval/versions/frame_ops.h"
#include "symbolic/messages/raised.h"

namespace framefuse {
namespace {

// What a profiler shows around the tensor work.
ABSL_ATTRIBUTE_COLD std::unique_ptr<at::RecordFunction> BeginRegion(CompileId id) {
  auto region = std::make_unique<at::RecordFunction>(at::RecordScope::USER_SCOPE);
  if (region->isActive()) region->before(absl::StrCat("framefuse region [", id.Text(), "]"));
  return region;
}

}  // namespace

std::string CompiledEntry::Explain(const FrameView& frame) const {
  std::string refutation = expects.Refutation();
  return refutation.empty() ? guards->Explain(frame) : refutation;
}

bool CompiledEntry::SavesAs(const CompiledEntry& other) const {
  if (graph_text != other.graph_text || resume.has_value() != other.resume.has_value()) return false;
  const bool same_work = (executable == nullptr) == (other.executable == nullptr);
  if (!resume) return same_work;
  const auto next = [](const ResumePoint& r) {
    std::vector<int> places;
    for (const ResumeFrame& f : r.frames) places.push_back(f.next_instruction);
    return places;
  };
  return same_work && next(*resume) == next(*other.resume);
}

std::optional<TorchState> CompiledEntry::EnterRunState() const {
  if (ABSL_PREDICT_TRUE(!run_state)) return std::nullopt;
  const TorchState found = TorchState::Current();
  run_state->ApplyToOperators();
  return found;
}

CompiledEntry::Outcome CompiledEntry::AfterFailure(const TensorWork::Report& report, Failure* failure) const {
  if (report.otherwise >= 0) {
    *failure = {expects.outputs[static_cast<std::size_t>(report.otherwise)].place, report.otherwise};
    return Outcome::kOtherWay;
  }
  if (report.deferred >= 0) {
    *failure = {expects.deferred[static_cast<std::size_t>(report.deferred)].text, -1, report.deferred};
    return Outcome::kOtherWay;
  }
  return report.before_writes ? Outcome::kRunNatively : Outcome::kRaised;
}

CompiledEntry::Outcome CompiledEntry::Run(const ResolvedSources& sources, Ref* result, std::vector<Ref>* registers,
                                          Failure* failure) const {
  const RunScope scope(use.get());
  if (ABSL_PREDICT_FALSE(!expects.warnings.empty())) {
    if (const auto heard = FirstThatIsHeard(expects.warnings, absl::MakeConstSpan(sources.objects, expects.read))) {
      *failure = {expects.warnings[*heard].place, -1, -1, static_cast<int>(*heard)};
      return Outcome::kOtherWay;
    }
  }
  recipes.Load(sources, registers);
  std::vector<std::int64_t> symbols;
  if (sizes != nullptr) symbols = sizes->Read(sources.objects);
  DrawsOfCall drawn;
  if (!draws.empty() && !drawn.Draw(draws, *registers, {sizes.get(), symbols})) {
    failure->text = TakeRaised(PyThreadState_Get()).text;
    return Outcome::kRunNatively;
  }
  std::vector<Ref> tensors;
  const std::optional<TorchState> found = EnterRunState();
  if (executable != nullptr) {
    absl::InlinedVector<Ref, 8> held;
    absl::InlinedVector<PyObject*, 8> arguments;
    for (SourceId id : inputs) {
      arguments.push_back(sources.objects[id]);
      held.push_back(Ref::Create(arguments.back()));
    }
    drawn.PutInto(absl::MakeSpan(held), absl::MakeSpan(arguments));
    for (const ShardedArgument& s : sharded) {
      held[s.input] = Enter(s.entrance, arguments[s.input]);
      arguments[s.input] = held[s.input];
      if (!held[s.input]) return Outcome::kRaised;
    }
    TensorWork::Report report;
    std::unique_ptr<at::RecordFunction> region;
    if (ABSL_PREDICT_FALSE(at::hasCallbacks())) region = BeginRegion(id);
    if (!executable->Run(arguments, absl::MakeSpan(symbols), &tensors, &report)) {
      if (CountsKinds()) CountEffects(effects, false);
      const Outcome outcome = AfterFailure(report, failure);
      if (outcome == Outcome::kRaised) return outcome;
      if (found) found->ApplyToOperators();
      drawn.Undo();
      if (outcome == Outcome::kRunNatively) failure->text = TakeRaised(PyThreadState_Get()).text;
      return outcome;
    }
  }
  const SizeValues numbers{sizes.get(), symbols};
  if (!recipes.Run(tensors, numbers, registers)) return Outcome::kRaised;
  for (const Effect& e : effects) {
    if (!ApplyEffect(e, *registers)) return Outcome::kRaised;
  }
  if (CountsKinds()) CountEffects(effects, true);
  if (end_state) end_state->Apply();
  if (!end_state && found) found->ApplyToOperators();
  if (end_exception != kNoRecipe) {
    frame_ops::SetHandledException(PyThreadState_Get(), (*registers)[static_cast<std::size_t>(end_exception)]);
  }
  if (resume) return Outcome::kResume;
  *result = (*registers)[static_cast<std::size_t>(this->result)];
  return Outcome::kReturned;
}

}  // namespace framefuse
