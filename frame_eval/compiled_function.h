// CompiledFunction: the callable that framefuse.compile returns (framefuse._C.CompiledFunction), and BindSimple.
// It calls its CallTarget with vectorcall, binds like a function (__get__), takes weak references and attributes of its
// own, and shows the wrapped callable's attributes as functools.wraps would: __wrapped__, __name__, __qualname__,
// __module__, __doc__, __dict__, and whatever else it lacks.
// Deep copies and pickles are the Python package's (SetCopying).
#ifndef FRAMEFUSE_FRAME_EVAL_COMPILED_FUNCTION_H_
#define FRAMEFUSE_FRAME_EVAL_COMPILED_FUNCTION_H_

#include <cstddef>
#include <memory>

#include "absl/container/inlined_vector.h"
#include "frame_eval/frame_view.h"
#include "frame_eval/ref.h"

namespace framefuse {

class CallTarget {
 public:
  virtual ~CallTarget() = default;
  // As vectorcall of `self`, the compiled function; null with a Python error set.
  virtual Ref Call(BorrowedRef self, PyObject* const* args, std::size_t nargsf, PyObject* kwnames) = 0;
  // Calls something that resumes what a call of the target returned, as part of that call.
  virtual Ref Resume(BorrowedRef callable, PyObject* const* args, std::size_t count);
  // In captured code a call is one of the wrapped callable, and not of the target.
  virtual bool is_captured() const { return true; }
  // For the cyclic collector: Python objects that the target holds, and letting go of them.
  virtual int Traverse(visitproc, void*) { return 0; }
  virtual void Clear() {}
};

// The type, made at the first call; null with a Python error set if that fails.
BorrowedRefOf<PyTypeObject> CompiledFunctionType();
bool IsCompiledFunctionObject(BorrowedRef object);
// Null with a Python error set on failure. `remake`, which may be null: makes such an object of another callable; shown
// as _framefuse_remake.
Ref NewCompiledFunction(BorrowedRef wrapped, std::unique_ptr<CallTarget> target, BorrowedRef remake = {});
// What __deepcopy__(memo) and __reduce_ex__(protocol) call, with the object before their argument.
void SetCopying(Ref deep_copy, Ref reduce);
// Of a compiled function; borrowed, null if `object` is none (or was cleared by the collector).
BorrowedRef WrappedCallable(BorrowedRef object);
CallTarget* TargetOf(BorrowedRef object);

// The slots of a frame that a call would start, without the frame.
struct BoundArguments {
  absl::InlinedVector<PyObject*, 16> slots;  // borrowed from the arguments and the function's defaults

  // Valid as long as the arguments are and the function's defaults stay the same.
  FrameView View(BorrowedRefOf<PyFunctionObject> function) const;
};

// Binds a call of a function with a simple signature: no *args, **kwargs or keyword-only parameters, no cells or free
// variables, no generator or coroutine. False where the signature is another or the arguments do not fit: then the call
// is to be made the ordinary way, which also raises the exact error. Sets no error.
bool BindSimple(BorrowedRefOf<PyFunctionObject> function, PyObject* const* args, std::size_t nargsf, PyObject* kwnames,
                BoundArguments* bound);

}  // namespace framefuse

#endif  // FRAMEFUSE_FRAME_EVAL_COMPILED_FUNCTION_H_
