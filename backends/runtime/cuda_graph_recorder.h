// CudaGraphRecorder: records what a device is told to do, to be told again at once (a CUDA graph). The one for CUDA is
// registered by the Python package, since torch's graphs, with their memory pools and generators, are reached there.
// Invariant: work that is recorded does not run, and reads and writes the same addresses at each replay.
#ifndef FRAMEFUSE_BACKENDS_RUNTIME_CUDA_GRAPH_RECORDER_H_
#define FRAMEFUSE_BACKENDS_RUNTIME_CUDA_GRAPH_RECORDER_H_

#include <c10/core/Device.h>

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace framefuse {

class CudaGraphRecording {
 public:
  virtual ~CudaGraphRecording() = default;
  // On the calling thread's current stream.
  virtual absl::Status Replay() = 0;
  // It has collectives: a process group that ends waits for its recordings to go, so it is closed before (once the
  // device is done). What is closed is not replayed.
  virtual void CloseWithGroups() {}
  virtual bool IsClosed() const { return false; }
};

class CudaGraphRecorder {
 public:
  virtual ~CudaGraphRecorder() = default;
  virtual absl::Status Serves(c10::Device device) = 0;
  // Whether collectives of this process group can be recorded: they are work of the device alone.
  virtual absl::Status Carries(const std::string& group, c10::Device device) = 0;
  // What the calling thread's work for `device` is queued on. An error: the user records that work just now.
  virtual absl::StatusOr<void*> CurrentStream(c10::Device device) = 0;
  // `work` runs once, before Record returns. What it allocates on `device` is the recording's own for ever.
  virtual absl::StatusOr<std::unique_ptr<CudaGraphRecording>> Record(c10::Device device,
                                                                     const std::function<absl::Status()>& work) = 0;
};

CudaGraphRecorder* TheCudaGraphRecorder();  // null: none was registered
void SetCudaGraphRecorder(std::unique_ptr<CudaGraphRecorder> recorder);

// The calling thread is in Record: a launch that fails there says nothing of the kernel.
bool IsRecording();
class RecordingScope {
 public:
  RecordingScope();
  ~RecordingScope();
  RecordingScope(const RecordingScope&) = delete;
  RecordingScope& operator=(const RecordingScope&) = delete;
};

}  // namespace framefuse

#endif  // FRAMEFUSE_BACKENDS_RUNTIME_CUDA_GRAPH_RECORDER_H_
