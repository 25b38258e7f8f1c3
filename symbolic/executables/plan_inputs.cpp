#include "symbolic/executables/plan_inputs.h"

#include <vector>

#include "guards/leaf/tensor.h"
#include "symbolic/entry/compiled_entry.h"
#include "symbolic/executables/executable.h"

namespace framefuse {
namespace {

void AddInput(Capture& capture, int input, Closed& closed) {
  CompiledEntry& entry = *closed.entry;
  const std::vector<RandomDraws::One>& draws = capture.draws().all();
  for (std::size_t i = 0; i < draws.size(); ++i) {
    if (draws[i].input == input) entry.draws[i].input = static_cast<int>(entry.inputs.size());
  }
  for (const ShardedInput& s : capture.objects().sharded_inputs()) {
    if (s.input != input) continue;
    entry.sharded.push_back({entry.inputs.size(), s.entrance});
    entry.inputs.push_back(s.source);
    return;
  }
  entry.inputs.push_back(capture.objects().tensor_inputs()[static_cast<std::size_t>(input)].source);
}

}  // namespace

void AddInputs(Capture& capture, Closed& closed) {
  const std::vector<TensorInput>& tensors = capture.objects().tensor_inputs();
  std::vector<SourceId> sources;
  std::vector<BorrowedRef> live;
  int whole = 0;
  for (const tracing::TracedInput& in : closed.graph.inputs) {
    if (in.input_index >= 0) {
      const TensorInput& t = tensors[static_cast<std::size_t>(in.input_index)];
      AddInput(capture, in.input_index, closed);
      if (capture.draws().IsDrawn(in.input_index)) continue;
      sources.push_back(t.source);
      live.emplace_back(t.real.get());
      if (in.storage_read) capture.reads().guards().AddStorage(t.source, t.real);
      whole += in.storage_read ? 1 : 0;
      if (in.storage_offset_read) capture.reads().guards().AddStorageOffset(t.source, t.real);
      continue;
    }
    const TensorInput& of = tensors[static_cast<std::size_t>(in.gradient_of)];
    const SourceId gradient = capture.reads().sources().Intern(SourceKind::kTensorGrad, of.source, 0, nullptr);
    Ref grad = ReadGrad(of.real);
    capture.reads().guards().AddTensor(gradient, grad, UserLocation());
    capture.reads().guards().AddLeaf(gradient, grad);
    closed.entry->inputs.push_back(gradient);
  }
  for (int index : closed.graph.gradients_read) {
    const TensorInput& of = tensors[static_cast<std::size_t>(index)];
    Ref grad = ReadGrad(of.real);
    if (grad.get() != Py_None) continue;
    capture.reads().guards().Add(capture.reads().sources().Intern(SourceKind::kTensorGrad, of.source, 0, nullptr),
                                 GuardKind::kIdentity, Py_None, UserLocation());
  }
  if (closed.graph.leaves_read) {
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      if (capture.draws().IsDrawn(static_cast<int>(i))) continue;
      capture.reads().guards().AddLeaf(tensors[i].source, tensors[i].real);
    }
  }
  // Of whole storages each is taken once.
  if ((WritesInputs(closed.graph) && sources.size() > 1) || whole > 1)
    capture.reads().guards().AddOverlap(sources, live);
}

}  // namespace framefuse
