#include "backends/runtime/cuda_graph_run.h"

#include <ATen/ops/_foreach_copy.h>
#include <ATen/ops/empty.h>
#include <ATen/record_function.h>
#include <c10/core/Allocator.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/TensorImpl.h>
#include <c10/core/TensorOptions.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "backends/graph/backend.h"
#include "common/index.h"
#include "common/status.h"

namespace framefuse {
namespace {

at::Tensor AllocateBytes(std::int64_t bytes, c10::Device device) {
  return at::empty({bytes}, at::TensorOptions().dtype(at::kByte).device(device));
}

// On the current device. A step has hundreds of results: torch's operator takes three times as long as its allocator.
c10::Storage AllocateStorage(std::int64_t bytes, c10::Allocator* allocator) {
  const auto size = static_cast<std::size_t>(bytes);
  return {c10::Storage::use_byte_size_t(), size, allocator->allocate(size), allocator, /*resizable=*/true};
}

at::Tensor TensorOver(c10::Storage storage, c10::DispatchKeySet keys, caffe2::TypeMeta dtype, at::IntArrayRef sizes,
                      at::IntArrayRef strides, std::int64_t offset) {
  at::Tensor t = at::detail::make_tensor<c10::TensorImpl>(std::move(storage), keys, dtype);
  t.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides, offset);
  return t;
}

const char* AddressOf(const at::Tensor& t) { return static_cast<const char*>(t.const_data_ptr()); }

std::int64_t OffsetInStorage(const at::Tensor& t) {
  return t.storage_offset() * static_cast<std::int64_t>(t.element_size());
}

// Outputs that an ending may make.
std::vector<bool> MayBeApart(const RecordingLayout& layout) {
  std::vector<bool> apart;
  for (std::size_t o = 0; o < layout.hidden.size(); ++o) {
    apart.push_back(!layout.hidden[o] && !layout.unread_outputs[o] && layout.overwritten[o] < 0);
  }
  return apart;
}

// Pieces of memory that are copied at once, in the widest elements that they fit.
class Copies {
 public:
  explicit Copies(c10::DispatchKeySet keys) : keys_(keys) {}

  void Add(const c10::Storage& to, std::int64_t to_byte, const c10::Storage& from, std::int64_t from_byte,
           std::int64_t bytes) {
    if (bytes == 0) return;
    const auto base = [](const c10::Storage& s) { return reinterpret_cast<std::uintptr_t>(s.data()); };
    const bool wide = (to_byte | from_byte | bytes) % 8 == 0 && (base(to) | base(from)) % 8 == 0;
    const auto dtype = caffe2::TypeMeta::fromScalarType(wide ? at::kLong : at::kByte);
    const std::int64_t width = wide ? 8 : 1;
    Pieces& pieces = wide ? wide_ : narrow_;
    pieces.to.push_back(TensorOver(to, keys_, dtype, {bytes / width}, {1}, to_byte / width));
    pieces.from.push_back(TensorOver(from, keys_, dtype, {bytes / width}, {1}, from_byte / width));
  }
  void Run() const {
    wide_.Run();
    narrow_.Run();
  }

 private:
  struct Pieces {
    std::vector<at::Tensor> to, from;
    void Run() const {
      if (!to.empty()) at::_foreach_copy_(to, from);
    }
  };
  const c10::DispatchKeySet keys_;
  Pieces wide_, narrow_;
};

// As one piece of memory.
bool CanTake(const at::Tensor& input, const at::Tensor& value) {
  return input.sizes() == value.sizes() && input.strides() == value.strides() && input.dtype() == value.dtype() &&
         input.is_non_overlapping_and_dense() && !input.is_inference();
}

}  // namespace

absl::StatusOr<std::int64_t> BytesToCopy(const at::Tensor& t) {
  if (t.numel() == 0) return 0;
  std::int64_t span = 1;
  for (std::int64_t d = 0; d < t.dim(); ++d) span += (t.size(d) - 1) * t.stride(d);
  constexpr std::int64_t kMostHoles = 2;
  if (span > kMostHoles * t.numel()) return absl::FailedPreconditionError("an input that moves has holes");
  return span * static_cast<std::int64_t>(t.element_size());
}

// Copied inputs keep their address's lowest bits, for which kernels are chosen.
std::vector<at::Tensor> CudaGraphRun::GiveInputs(const RecordingLayout& layout, absl::Span<const at::Tensor> inputs,
                                                 const std::vector<bool>& copied) {
  std::vector<at::Tensor> given(inputs.begin(), inputs.end());
  addresses_.assign(inputs.size(), nullptr);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const at::Tensor& t = inputs[i];
    if (!t.defined()) continue;
    if (layout.unread_inputs[i]) continue;
    if (!copied[i]) {
      addresses_[i] = AddressOf(t);
      continue;
    }
    constexpr std::int64_t kAlignment = 64;
    const std::int64_t bytes = *BytesToCopy(t), size = static_cast<std::int64_t>(t.element_size());
    const auto low = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(AddressOf(t)) % kAlignment);
    const std::int64_t skipped = low % size == 0 ? low : 0;
    at::Tensor memory = AllocateBytes(bytes + skipped, layout.device);
    given[i] = TensorOver(memory.storage(), t.key_set(), t.dtype(), t.sizes(), t.strides(), skipped / size);
    copied_.push_back({static_cast<std::int32_t>(i), bytes, given[i]});
  }
  return given;
}

absl::StatusOr<std::unique_ptr<CudaGraphRun>> CudaGraphRun::Record(
    CudaGraphRecorder& recorder, const Executable& executable, const RecordingLayout& layout, void* stream,
    absl::Span<const at::Tensor> inputs, const std::vector<bool>& copied, absl::Span<const std::int64_t> symbols) {
  auto run = std::unique_ptr<CudaGraphRun>(new CudaGraphRun);
  try {
    run->stream_ = stream;
    run->device_ = layout.device;
    run->constants_ = layout.constants;
    run->writes_ = layout.writes;
    const std::vector<at::Tensor> given = run->GiveInputs(layout, inputs, copied);
    std::vector<at::Tensor> outputs(layout.hidden.size());
    const std::vector<bool> apart = MayBeApart(layout);
    auto recording = recorder.Record(layout.device, [&] {
      const RecordingScope scope;
      return executable.RunToEnding(given, symbols, absl::MakeSpan(outputs), apart, &run->ending_);
    });
    if (!recording.ok()) return recording.status();
    FF_RETURN_IF_ERROR(run->Understand(layout, inputs, given, copied, outputs));
    run->recording_ = *std::move(recording);
    if (layout.speaks) run->recording_->CloseWithGroups();
    outputs.clear();
    for (Made& m : run->made_) m.uses = m.storage.use_count();
  } catch (...) {
    return TorchErrorStatus(std::current_exception(), "");
  }
  return run;
}

absl::Status CudaGraphRun::Understand(const RecordingLayout& layout, absl::Span<const at::Tensor> inputs,
                                      const std::vector<at::Tensor>& given, const std::vector<bool>& copied,
                                      const std::vector<at::Tensor>& outputs) {
  const auto find = [](const std::vector<at::Tensor>& tensors, auto&& like) {
    const auto at =
        std::find_if(tensors.begin(), tensors.end(), [&](const at::Tensor& t) { return t.defined() && like(t); });
    return at == tensors.end() ? -1 : static_cast<std::int32_t>(at - tensors.begin());
  };
  for (std::size_t o = 0; o < outputs.size(); ++o) {
    const at::Tensor& t = outputs[o];
    Result& r = results_.emplace_back();
    if (!t.defined()) continue;
    if (layout.unread_outputs[o] && t.device() != layout.device) {
      r = {Result::Kind::kConstant,
           static_cast<std::int32_t>(constants_.size()),
           /*input=*/-1,
           t.storage_offset(),
           t.sizes().vec(),
           t.strides().vec(),
           t.dtype(),
           t.key_set()};
      constants_.push_back(t);
      continue;
    }
    if (t.layout() != at::kStrided || t.device() != layout.device || t.is_conj() || t.is_neg()) {
      return absl::FailedPreconditionError(absl::StrCat("output ", o, " is no plain tensor of the device"));
    }
    r.sizes = t.sizes().vec(), r.strides = t.strides().vec(), r.offset = t.storage_offset();
    r.dtype = t.dtype(), r.keys = t.key_set();
    const auto same_memory = [&](const at::Tensor& other) { return other.storage().is_alias_of(t.storage()); };
    const std::int32_t same = find(given, [&](const at::Tensor& other) { return other.is_same(t); });
    const std::int32_t input = find(given, same_memory), constant = find(layout.constants, same_memory);
    // Written over a copy, the new value has to leave it.
    const bool overwrote = same >= 0 && layout.overwritten[o] == same && copied[At(same)];
    if (same >= 0 && !overwrote) {
      r.kind = Result::Kind::kInput, r.from = same;
    } else if (input >= 0 && !overwrote) {
      r.kind = Result::Kind::kViewOfInput, r.from = input;
      const std::int64_t bytes = AddressOf(t) - AddressOf(given[At(input)]);
      if (bytes % static_cast<std::int64_t>(t.element_size()) != 0 || t.dtype() != given[At(input)].dtype()) {
        return absl::FailedPreconditionError(absl::StrCat("output ", o, " is an input seen as another dtype"));
      }
      r.offset = bytes / static_cast<std::int64_t>(t.element_size());
    } else if (constant >= 0) {
      r.kind = Result::Kind::kConstant, r.from = constant;
    } else {
      UnderstandMade(t, layout.hidden[o], layout.overwritten[o], inputs, &r);
    }
  }
  return absl::OkStatus();
}

void CudaGraphRun::UnderstandMade(const at::Tensor& t, bool hidden, std::int32_t overwritten,
                                  absl::Span<const at::Tensor> inputs, Result* r) {
  const auto made =
      std::find_if(made_.begin(), made_.end(), [&](const Made& m) { return m.storage.is_alias_of(t.storage()); });
  r->kind = Result::Kind::kMade;
  r->from = static_cast<std::int32_t>(made - made_.begin());
  if (made == made_.end()) made_.push_back({t.storage(), static_cast<std::int64_t>(t.storage().nbytes())});
  if (overwritten >= 0 && CanTake(inputs[At(overwritten)], t)) {
    r->kind = Result::Kind::kWritten, r->input = overwritten;
  } else if (!hidden) {
    made_[At(r->from)].leaves = true;
  }
}

bool CudaGraphRun::IsFree() const {
  return std::none_of(made_.begin(), made_.end(),
                      [](const Made& m) { return !m.leaves && m.storage.use_count() > m.uses; });
}

bool CudaGraphRun::Matches(absl::Span<const at::Tensor> inputs) const {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (addresses_[i] != nullptr && addresses_[i] != inputs[i].const_data_ptr()) return false;
  }
  return true;
}

at::Tensor CudaGraphRun::MakeTensor(const Result& r, c10::Storage storage, std::int64_t offset) {
  return TensorOver(std::move(storage), r.keys, r.dtype, r.sizes, r.strides, offset);
}

absl::Status CudaGraphRun::Replay(absl::Span<const at::Tensor> inputs, absl::Span<at::Tensor> outputs) const {
  bool written = writes_;
  const auto failed = [&](absl::Status status) {
    if (!written) MarkInputsUntouched(status);
    return status;
  };
  try {
    const c10::DispatchKeySet keys(c10::computeDispatchKey(std::nullopt, at::kStrided, device_));
    const c10::DeviceGuard guard(device_);
    Copies in(keys), out(keys);
    for (const Copied& c : copied_) {
      const at::Tensor& from = inputs[At(c.input)];
      in.Add(c.memory.storage(), OffsetInStorage(c.memory), from.storage(), OffsetInStorage(from), c.bytes);
    }
    in.Run();
    {
      RECORD_USER_SCOPE("framefuse CUDA graph replay");
      if (absl::Status status = recording_->Replay(); !status.ok()) return failed(std::move(status));
    }
    c10::Allocator* const allocator = c10::GetAllocator(device_.type());
    std::vector<c10::Storage> storages;
    storages.reserve(made_.size());
    for (const Made& m : made_) {
      storages.push_back(m.leaves ? AllocateStorage(m.bytes, allocator) : m.storage);
      if (m.leaves) out.Add(storages.back(), 0, m.storage, 0, m.bytes);
    }
    for (const Result& r : results_) {
      if (r.kind != Result::Kind::kWritten) continue;
      const at::Tensor& to = inputs[At(r.input)];
      const auto size = static_cast<std::int64_t>(r.dtype.itemsize());
      out.Add(to.storage(), OffsetInStorage(to), made_[At(r.from)].storage, r.offset * size, to.numel() * size);
    }
    // It reads inputs as they were. What follows fails for nothing but a lack of memory.
    if (ending_ != nullptr) {
      if (absl::Status status = ending_->Run(inputs, outputs); !status.ok()) return failed(std::move(status));
    }
    written = true;
    out.Run();
    Give(inputs, storages, outputs);
  } catch (...) {
    return failed(TorchErrorStatus(std::current_exception(), ""));
  }
  return absl::OkStatus();
}

void CudaGraphRun::Give(absl::Span<const at::Tensor> inputs, const std::vector<c10::Storage>& storages,
                        absl::Span<at::Tensor> outputs) const {
  for (std::size_t o = 0; o < results_.size(); ++o) {
    const Result& r = results_[o];
    switch (r.kind) {
      case Result::Kind::kUndefined:
        break;
      case Result::Kind::kInput:
        outputs[o] = inputs[At(r.from)];
        break;
      case Result::Kind::kWritten:
        outputs[o] = inputs[At(r.input)];
        break;
      case Result::Kind::kMade:
        outputs[o] = MakeTensor(r, storages[At(r.from)], r.offset);
        break;
      case Result::Kind::kConstant:
        outputs[o] = MakeTensor(r, constants_[At(r.from)].storage(), r.offset);
        break;
      case Result::Kind::kViewOfInput:
        outputs[o] = MakeTensor(r, inputs[At(r.from)].storage(), inputs[At(r.from)].storage_offset() + r.offset);
        break;
    }
  }
}

}  // namespace framefuse
