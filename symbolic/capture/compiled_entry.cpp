#include "symbolic/capture/compiled_entry.h"

#include "absl/container/inlined_vector.h"
#include "common/coverage.h"
#include "frame_eval/versions/frame_ops.h"
#include "symbolic/capture/count_outcomes.h"
#include "symbolic/capture/raised.h"

namespace framefuse {

std::string CompiledEntry::Explain(const FrameView& frame) const { return guards->Explain(frame); }

CompiledEntry::Outcome CompiledEntry::Run(const ResolvedSources& sources, Ref* result, std::vector<Ref>* registers,
                                          std::string* failure) const {
  recipes.Load(sources, registers);
  std::vector<std::int64_t> symbols;
  if (sizes != nullptr) symbols = sizes->Read(sources.objects);
  std::vector<Ref> tensors;
  if (executable != nullptr) {
    absl::InlinedVector<Ref, 8> held;
    absl::InlinedVector<PyObject*, 8> arguments;
    for (SourceId id : inputs) {
      arguments.push_back(sources.objects[id]);
      held.push_back(Ref::Create(arguments.back()));
    }
    bool before_writes = true;
    if (!executable->Run(arguments, symbols, &tensors, &before_writes)) {
      if (CountsKinds()) CountEffects(effects, false);
      if (!before_writes) return Outcome::kRaised;
      *failure = TakeRaised(PyThreadState_Get()).text;
      return Outcome::kRunNatively;
    }
  }
  const SizeValues numbers{sizes.get(), symbols};
  if (!recipes.Run(tensors, numbers, registers)) return Outcome::kRaised;
  for (const Effect& e : effects) {
    if (!ApplyEffect(e, *registers)) return Outcome::kRaised;
  }
  if (CountsKinds()) CountEffects(effects, true);
  if (end_state) end_state->Apply();
  if (end_exception != kNoRecipe) {
    frame_ops::SetHandledException(PyThreadState_Get(), (*registers)[static_cast<std::size_t>(end_exception)]);
  }
  if (resume) return Outcome::kResume;
  *result = (*registers)[static_cast<std::size_t>(this->result)];
  return Outcome::kReturned;
}

}  // namespace framefuse
