#include "python/cuda_graph_recorder.h"

#include <atomic>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "backends/cuda_runtime/driver.h"
#include "common/status.h"
#include "frame_eval/hook.h"
#include "python/gil.h"

namespace framefuse {
namespace {

// Of what the package's functions return: None, or the text of an error.
absl::Status StatusOf(const Ref& returned) {
  if (returned && returned.get() == Py_None) return absl::OkStatus();
  const char* text = returned && PyUnicode_Check(returned.get()) ? PyUnicode_AsUTF8(returned.get()) : nullptr;
  PyErr_Clear();
  return absl::UnavailableError(text != nullptr ? text : "unknown error");
}

class PythonRecording;

// Those with collectives; the GIL guards it.
std::set<PythonRecording*>& OfGroups() {
  static auto* const of_groups = new std::set<PythonRecording*>;
  return *of_groups;
}

class PythonRecording final : public CudaGraphRecording {
 public:
  explicit PythonRecording(Ref object) : object_(std::move(object)) {}
  // At the interpreter's end, what CUDA holds ends with the process.
  ~PythonRecording() override {
    if (!Py_IsInitialized()) {
      (void)object_.release();
      return;
    }
    const Gil gil;
    OfGroups().erase(this);
    Close();
    object_ = Ref();
  }
  void CloseWithGroups() override {
    const Gil gil;
    OfGroups().insert(this);
  }
  bool IsClosed() const override { return closed_.load(std::memory_order_acquire); }
  // The GIL is held.
  void Close() {
    closed_.store(true, std::memory_order_release);
    (void)Call("close");
  }
  absl::Status Replay() override {
    const Gil gil;
    return Call("replay");
  }
  // The GIL is held.
  absl::Status Call(const char* method) {
    return StatusOf(Ref::Steal(PyObject_CallMethod(object_.get(), method, nullptr)));
  }

 private:
  Ref object_;
  std::atomic<bool> closed_ = false;
};

class PythonRecorder final : public CudaGraphRecorder {
 public:
  PythonRecorder(Ref begin, Ref carries) : begin_(std::move(begin)), carries_(std::move(carries)) {}

  absl::Status Serves(c10::Device device) override {
    if (!device.is_cuda()) return absl::FailedPreconditionError("the work is on " + device.str());
    return cuda::GetDevice(device.index()).status();
  }

  absl::Status Carries(const std::string& group, c10::Device device) override {
    const Gil gil;
    const HookScope native(HookMode::kOff);
    return StatusOf(
        Ref::Steal(PyObject_CallFunction(carries_.get(), "si", group.c_str(), static_cast<int>(device.index()))));
  }

  absl::StatusOr<void*> CurrentStream(c10::Device device) override {
    FF_ASSIGN_OR_RETURN(const cuda::Stream stream, cuda::CurrentStream(device.index()));
    FF_ASSIGN_OR_RETURN(const cuda::Driver* driver, cuda::GetDriver());
    int capturing = 0;
    FF_RETURN_IF_ERROR(driver->Check(driver->StreamIsCapturing(stream, &capturing), "cuStreamIsCapturing"));
    if (capturing != 0) return absl::UnavailableError("the stream is being captured");
    return stream;
  }

  absl::StatusOr<std::unique_ptr<CudaGraphRecording>> Record(c10::Device device,
                                                             const std::function<absl::Status()>& work) override {
    std::unique_ptr<PythonRecording> recording;
    {
      const Gil gil;
      Ref object = Ref::Steal(PyObject_CallFunction(begin_.get(), "i", static_cast<int>(device.index())));
      if (!object || PyUnicode_Check(object.get())) return StatusOf(object);
      recording = std::make_unique<PythonRecording>(std::move(object));
    }
    absl::Status status = work();
    const Gil gil;
    const absl::Status ended = recording->Call(status.ok() ? "end" : "abandon");
    if (!status.ok()) return status;
    FF_RETURN_IF_ERROR(ended);
    return recording;
  }

 private:
  const Ref begin_, carries_;
};

}  // namespace

std::unique_ptr<CudaGraphRecorder> MakeGraphRecorder(Ref begin, Ref carries) {
  return std::make_unique<PythonRecorder>(std::move(begin), std::move(carries));
}

void CloseRecordingsOfGroups() {
  const std::set<PythonRecording*> all = std::exchange(OfGroups(), {});
  for (PythonRecording* recording : all) recording->Close();
}

std::function<bool()> MakeRecordingProbe(Ref probe) {
  return [shared = std::make_shared<const Ref>(std::move(probe))] {
    if (!Py_IsInitialized()) return false;
    const Gil gil;
    const HookScope native(HookMode::kOff);
    const Ref answer = Ref::Steal(PyObject_CallNoArgs(shared->get()));
    const int recorded = answer ? PyObject_IsTrue(answer.get()) : -1;
    if (recorded < 0) PyErr_Clear();
    return recorded > 0;
  };
}

}  // namespace framefuse
