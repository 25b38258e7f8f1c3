// CudaGraphRun: one recording of an executable, with the memory that it reads and writes.
// Invariant (soundness rule 21): what a replay overwrites nobody else holds. Visible outputs leave as copies in memory
// of their own, are made behind the replay by the executable's ending, or are written over the inputs whose new values
// they are; hidden ones, which only a plan's own backward reads, stay in the recording's memory, and while one of their
// storages is in use the recording is not free. An input is read where it lay when the run was recorded, or copied to
// where the recording reads it.
#ifndef FRAMEFUSE_BACKENDS_RUNTIME_CUDA_GRAPH_RUN_H_
#define FRAMEFUSE_BACKENDS_RUNTIME_CUDA_GRAPH_RUN_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "backends/runtime/cuda_graph_recorder.h"
#include "backends/runtime/executable.h"

namespace framefuse {

// What holds for all recordings of an executable.
struct RecordingLayout {
  c10::Device device{c10::DeviceType::CPU};
  std::vector<bool> hidden;                         // by output: only the plan's own backward reads it
  std::vector<bool> unread_inputs, unread_outputs;  // passed on, but read by nobody
  std::vector<bool> wandering_seeds;                // by input: see recordable.h
  std::vector<bool> tangents;                       // by input: from outside, wherever the allocator put it
  std::vector<bool> overlapping;                    // by input: it may share memory with another one
  std::vector<std::int32_t> overwritten;            // by output: the input whose new value it is, -1 for none
  bool writes = false;                              // the recorded work writes inputs
  std::vector<at::Tensor> constants;                // held by the executable
  bool speaks = false;                              // it has collectives
};

class CudaGraphRun {
 public:
  // `copied`: by input, whether a replay copies it. Inputs that are not must be where they are now at each replay.
  static absl::StatusOr<std::unique_ptr<CudaGraphRun>> Record(CudaGraphRecorder& recorder, const Executable& executable,
                                                              const RecordingLayout& layout, void* stream,
                                                              absl::Span<const at::Tensor> inputs,
                                                              const std::vector<bool>& copied,
                                                              absl::Span<const std::int64_t> symbols);

  void* stream() const { return stream_; }
  bool IsFree() const;
  bool IsClosed() const { return recording_->IsClosed(); }
  // A failure says whether inputs were written before it (MarkInputsUntouched).
  bool Matches(absl::Span<const at::Tensor> inputs) const;
  bool ReadsAt(std::size_t input, const void* place) const { return addresses_[input] == place; }
  absl::Status Replay(absl::Span<const at::Tensor> inputs, absl::Span<at::Tensor> outputs) const;

 private:
  struct Copied {
    std::int32_t input = 0;
    std::int64_t bytes = 0;
    at::Tensor memory;  // bytes
  };
  struct Made {
    c10::Storage storage;
    std::int64_t bytes = 0;
    bool leaves = false;   // with a copy of its own; else it stays, and results may lie in it
    std::size_t uses = 0;  // by the run itself
  };
  struct Result {
    enum class Kind : std::uint8_t { kUndefined, kInput, kViewOfInput, kConstant, kMade, kWritten };
    Kind kind = Kind::kUndefined;
    std::int32_t from = 0;    // input, constant, or element of made_
    std::int32_t input = -1;  // kWritten: where it goes
    std::int64_t offset = 0;  // kMade, kWritten: storage offset; kViewOfInput: elements past the input's first
    std::vector<std::int64_t> sizes, strides;
    caffe2::TypeMeta dtype;
    c10::DispatchKeySet keys;
  };

  std::vector<at::Tensor> GiveInputs(const RecordingLayout& layout, absl::Span<const at::Tensor> inputs,
                                     const std::vector<bool>& copied);
  absl::Status Understand(const RecordingLayout& layout, absl::Span<const at::Tensor> inputs,
                          const std::vector<at::Tensor>& given, const std::vector<bool>& copied,
                          const std::vector<at::Tensor>& outputs);
  // Of an output in memory that the recording made.
  void UnderstandMade(const at::Tensor& output, bool hidden, std::int32_t overwritten,
                      absl::Span<const at::Tensor> inputs, Result* result);
  void Give(absl::Span<const at::Tensor> inputs, const std::vector<c10::Storage>& storages,
            absl::Span<at::Tensor> outputs) const;
  static at::Tensor MakeTensor(const Result& result, c10::Storage storage, std::int64_t offset);

  void* stream_ = nullptr;
  c10::Device device_{c10::DeviceType::CPU};
  bool writes_ = false;                 // the recorded work writes inputs
  std::vector<const void*> addresses_;  // by input; null: copied, or undefined
  std::vector<Copied> copied_;
  std::vector<at::Tensor> constants_;
  std::vector<Made> made_;
  std::vector<Result> results_;
  std::unique_ptr<Ending> ending_;                 // null: all is recorded
  std::unique_ptr<CudaGraphRecording> recording_;  // goes first: it writes the memory above
};

// Bytes that a replay copies for this input; an error where it is not copied as one piece of memory.
absl::StatusOr<std::int64_t> BytesToCopy(const at::Tensor& input);

}  // namespace framefuse

#endif  // FRAMEFUSE_BACKENDS_RUNTIME_CUDA_GRAPH_RUN_H_
