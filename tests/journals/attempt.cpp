#include "tests/journals/attempt.h"

#include <string_view>

#include "frame_eval/hook.h"
#include "symbolic/rules/builtin_types.h"
#include "symbolic/rules/call_rules.h"
#include "symbolic/rules/numpy_scalars.h"
#include "symbolic/rules/tensor_types.h"

namespace framefuse::testing {
namespace {

// Runs the body where the frame of f begins, and every frame natively.
class AtFunction final : public FrameHandler {
 public:
  explicit AtFunction(std::function<void(PyThreadState*, frame_ops::Frame*)> body) : body_(std::move(body)) {}
  PyObject* OnFrame(PyThreadState* thread, frame_ops::Frame* frame, int throw_flag) override {
    const char* name = PyUnicode_AsUTF8(frame_ops::Code(frame)->co_name);
    if (std::string_view(name) == "f") {
      const HookScope off(HookMode::kOff);
      reached = true;
      body_(thread, frame);
    }
    return RunUnhooked(thread, frame, throw_flag);
  }
  bool reached = false;

 private:
  std::function<void(PyThreadState*, frame_ops::Frame*)> body_;
};

}  // namespace

Ref Name(const char* text) { return Ref::Steal(PyUnicode_InternFromString(text)); }

InnerFrame::InnerFrame(Journals& journals, const char* function, Completion completion) : frames_(journals.frames()) {
  const Ref object = Eval(function);
  act.frame =
      frame_ops::NewFrame(PyThreadState_Get(), reinterpret_cast<PyFunctionObject*>(object.get()), /*locals=*/nullptr);
  act.completion = completion;
  frames_.Push(&act);
}

InnerFrame::~InnerFrame() {
  frames_.Pop();
  frame_ops::ClearAndPopFrame(PyThreadState_Get(), act.frame);
}

Attempt::Attempt(PyThreadState* thread, frame_ops::Frame* frame, const CaptureOptions& options)
    : journals(control, frame, options), thread_(thread), real_(frame) {
  root.frame = frame_ops::CopyFrame(thread, frame);
  frames().PushRoot(&root);
  breaks().BreakAt(options.break_at);
  const FrameView view = frame_ops::View(frame);
  slots_.assign(view.slots, view.slots + view.slot_count);
}

Attempt::~Attempt() {
  breaks().Unwind();
  PyErr_Clear();
  FrameStack::DropSlots(root.frame);
  frames().Pop();
  frame_ops::ClearAndPopFrame(thread_, root.frame);
  objects().ClearTracked();
  writes().Clear();
  reads().EndLookups();
  objects().ClearFresh();
  made().TakeApart();
}

Value Attempt::Load(int slot) {
  return objects().Adopt(frame_ops::Slots(root.frame)[slot], reads().sources().Local(slot));
}

void Attempt::SetNext(int slot, const char* expression) {
  held_.push_back(Eval(expression));
  slots_[static_cast<std::size_t>(slot)] = held_.back().get();
}

bool Attempt::GuardsHold() {
  if (program_ == nullptr || compiled_ != guard_count()) {
    absl::StatusOr<std::unique_ptr<GuardProgram>> program =
        reads().guards().Compile(reads().leaves(), frames().SlotNames());
    if (!program.ok()) {
      ADD_FAILURE() << program.status().message();
      return false;
    }
    program_ = *std::move(program);
    compiled_ = guard_count();
  }
  FrameView view = frame_ops::View(real_);
  view.slots = slots_.data();
  return program_->Check(view, nullptr);
}

std::optional<GraphBreakKind> Attempt::BrokeWith() {
  if (!breaks().record()) return std::nullopt;
  return breaks().record()->reason.kind;
}

void InAttempt::SetUpTestSuite() {
  static const bool once = [] {
    Execute("import torch, types, collections, functools");
    RegisterTorchLeafTypes();
    RegisterNumpyLeafTypes();
    LoadBuiltinTypes();
    LoadCallRules();
    return true;
  }();
  (void)once;
}

void InAttempt::At(const char* call, const Body& body, const CaptureOptions& options) {
  AtFunction handler([&](PyThreadState* thread, frame_ops::Frame* frame) {
    Attempt attempt(thread, frame, options);
    body(attempt);
  });
  {
    const HookScope hook(HookMode::kRun, &handler);
    Execute(call);
  }
  EXPECT_TRUE(handler.reached) << call;
}

}  // namespace framefuse::testing
