// NativeBoundary: where an attempt leaves for C code that runs on fakes and representatives, and what it finds when
// that comes back. C code may call Python frames, which are then evaluated; torch's own frames and those that it calls
// of the standard library run as they are, and so count as one leaf.
// Invariant: after C code ran, Check is asked before its result is used: a break that the tracer noted ends the
// attempt.
#ifndef FRAMEFUSE_SYMBOLIC_JOURNALS_NATIVE_BOUNDARY_H_
#define FRAMEFUSE_SYMBOLIC_JOURNALS_NATIVE_BOUNDARY_H_

#include "symbolic/evaluator/value.h"
#include "symbolic/journals/capture_position.h"
#include "symbolic/rules/numpy_scalars.h"
#include "symbolic/tracing/tracer.h"

namespace framefuse {

class BreakController;
class FrameStack;

GraphBreakKind BreakKindOf(const tracing::TensorBreak& b);

class NativeBoundary {
 public:
  NativeBoundary(const CaptureOptions& options, FrameStack& frames, BreakController& breaks, tracing::Tracer& tracer)
      : options_(options), frames_(frames), breaks_(breaks), tracer_(tracer) {}

  // C code that may call back into Python frames, which are then evaluated. `receiver`: who gets what they return, if
  // it may be one that looks at none of it (moving_code.h).
  template <typename F>
  auto Run(F&& f, BorrowedRef receiver = nullptr) {
    ++depth_.native;
    const BorrowedRef outer = std::exchange(depth_.receiver, receiver);
    auto result = f();
    depth_.receiver = outer;
    --depth_.native;
    if (PyErr_Occurred() != nullptr) tracer_.AskLeaves();  // torch may have refused to write a leaf
    return result;
  }
  // The same, and what Python it calls of torch's and the standard library's runs as it is.
  template <typename F>
  auto RunAsLeaf(bool leaf, F&& f, BorrowedRef receiver = nullptr) {
    if (leaf) ++depth_.leaf;
    auto result = Run(f, receiver);
    if (leaf) --depth_.leaf;
    return result;
  }
  // While capture itself would handle an error of what it calls, or use its result, and not the caller's bytecode:
  // frames below cannot be completed from outside.
  template <typename F>
  auto Catching(F&& f) {
    ++catching_;
    auto value = f();
    --catching_;
    return value;
  }

  struct Depth {
    int native = 0, leaf = 0;
    BorrowedRef receiver;
  };
  const Depth& depth() const { return depth_; }
  bool catching() const { return catching_ > 0; }
  Depth Enter() { return std::exchange(depth_, Depth()); }  // a frame: it is in no C code of its own yet
  void Leave(const Depth& outer) { depth_ = outer; }

  // Takes a break that the tracer noted. True if the run goes on.
  [[nodiscard]] bool Check();
  Value Wrap(Ref object);  // a result: null if it failed, or if the run does not go on
  // Numpy raises from now on where it would warn.
  void RaiseNumpyErrors() { numpy_errors_.Raise(); }
  // Of the error that torch raised: false where the graph breaks, for it may be about fakes.
  [[nodiscard]] bool ConfirmTorchError(BorrowedRef callable);

 private:
  bool IsErrorAboutFakes() const;
  bool IsErrorAboutSymbols();
  bool IsErrorHandled() const;  // by a handler of any frame of the attempt

  const CaptureOptions& options_;
  FrameStack& frames_;
  BreakController& breaks_;
  tracing::Tracer& tracer_;
  NumpyErrors numpy_errors_;
  Depth depth_;
  int catching_ = 0;
};

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_JOURNALS_NATIVE_BOUNDARY_H_
