// user_stack: the frames of the program around a place, with the nn.Module whose method each one runs.
// Invariant: runs no Python code of the program and makes no frame objects; never leaves a Python error set.
#ifndef FRAMEFUSE_SYMBOLIC_FRAMES_USER_STACK_H_
#define FRAMEFUSE_SYMBOLIC_FRAMES_USER_STACK_H_

#include <Python.h>

#include <string>
#include <vector>

#include "frame_eval/frame_view.h"
#include "frame_eval/versions/frame_ops.h"
#include "symbolic/messages/graph_break.h"

namespace framefuse {

// Where a frame stands; the head of the class's forward() where torch's own code calls a module.
CodePlace PlaceOf(const frame_ops::Frame* frame, int instruction);

// The module around the frames that were entered, by its path from the outermost one.
class ModuleAround {
 public:
  ModuleAround() = default;
  // The frames that this thread executes are entered, but for `below` and what that called.
  explicit ModuleAround(const frame_ops::Frame* below);
  void Enter(const frame_ops::Frame* frame);
  CodePlace Around(CodePlace place) const;

 private:
  PyObject* outermost_ = nullptr;  // borrowed of frames that are being executed
  PyObject* module_ = nullptr;
  std::string path_;
};

// The code that a message about the frame names: the class's forward where torch's own code calls a module. Borrowed.
PyCodeObject* ShownCode(const FrameView& frame);
// What a message about a compiled object's `code` names: the class's forward where it is torch's own, which calls a
// module. Borrowed.
PyCodeObject* UserCodeOf(BorrowedRef callable, PyCodeObject* code);

// Torch's own code between the call of a module and its forward(): no stack shows it.
bool CallsModule(const frame_ops::Frame* frame);

// While alive, the frame that is being executed has called compiled code, unless one further out has.
class CompiledCall {
 public:
  CompiledCall();
  ~CompiledCall();
  CompiledCall(const CompiledCall&) = delete;
  CompiledCall& operator=(const CompiledCall&) = delete;

 private:
  bool outermost_;
};

// The frames that this thread executes, outermost first, without framefuse's own.
struct UserStack {
  std::vector<CodePlace> callers;  // of the compiled function
  std::vector<CodePlace> frames;   // that compiled code runs or ran
};
UserStack CurrentStack();

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_FRAMES_USER_STACK_H_
