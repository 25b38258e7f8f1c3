#include "backends/runtime/cuda_graph_recorder.h"

#include <utility>

namespace framefuse {
namespace {

std::unique_ptr<CudaGraphRecorder>& Slot() {
  static auto* const slot = new std::unique_ptr<CudaGraphRecorder>;
  return *slot;
}

thread_local bool is_recording = false;

}  // namespace

CudaGraphRecorder* TheCudaGraphRecorder() { return Slot().get(); }
void SetCudaGraphRecorder(std::unique_ptr<CudaGraphRecorder> recorder) { Slot() = std::move(recorder); }

bool IsRecording() { return is_recording; }
RecordingScope::RecordingScope() { is_recording = true; }
RecordingScope::~RecordingScope() { is_recording = false; }

}  // namespace framefuse
