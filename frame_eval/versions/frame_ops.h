// frame_ops: everything that touches a _PyInterpreterFrame, a generator's or a thread's private fields.
// frames.cpp has what all versions share, since_py312.cpp what is so from 3.12 on, py311.cpp and its like the rest; no
// file outside of versions/ has version conditions. Invariant: Frame is CPython's own struct, never laid out by us.
#ifndef FRAMEFUSE_FRAME_EVAL_VERSIONS_FRAME_OPS_H_
#define FRAMEFUSE_FRAME_EVAL_VERSIONS_FRAME_OPS_H_

#include <Python.h>

#include <cstdint>

#include "frame_eval/frame_view.h"
#include "frame_eval/ref.h"

struct _PyInterpreterFrame;

namespace framefuse::frame_ops {

using Frame = ::_PyInterpreterFrame;
// CPython's code unit, by its size: 3.13 hides the type. A pointer to one may alias CPython's own.
using CodeUnit = std::uint16_t;
using CodePointer [[gnu::may_alias]] = CodeUnit*;
using EvalFunction = PyObject* (*)(PyThreadState*, Frame*, int throw_flag);

// ---- the hook
void SetEvalFunction(EvalFunction function);  // null: CPython's own
EvalFunction GetEvalFunction();
// Runs the frame from its next instruction with CPython's evaluator and finishes it as CPython's caller expects
// (3.12 frees the frame). Never start it between KW_NAMES, PRECALL and CALL.
PyObject* EvalDefault(PyThreadState* thread, Frame* frame, int throw_flag);
// To be called before an evaluation function that is not ours gets a frame: what CPython keeps tagged is tagged again.
void GiveBack(Frame* frame);
// The same as EvalDefault for a frame made by NewFrame or CopyFrame: it is freed in every version.
PyObject* EvalAndFree(PyThreadState* thread, Frame* frame, int throw_flag);
// Who is told of what this thread runs. A profiler in C (cProfile, torch.profiler) sees calls and gets the same
// answers whether Python or compiled code ran; a trace function, a profile function in Python or a tool that listens
// for lines looks into frames.
enum class Watcher : std::uint8_t { kNone, kOfCalls, kOfFrames };
Watcher WatcherOf(PyThreadState* thread);
// A trace or profile function of this thread is running.
bool IsInWatcher(PyThreadState* thread);

// ---- reading a frame
PyCodeObject* Code(const Frame* frame);
PyFunctionObject* Function(const Frame* frame);
PyObject* Globals(const Frame* frame);
PyObject* Builtins(const Frame* frame);
PyObject* Locals(const Frame* frame);  // f_locals mapping of class bodies and modules, or null
PyObject** Slots(Frame* frame);        // localsplus; the stack follows at SlotCount(code)
// What a slot of an executing frame holds: from 3.14 on a write through f_locals leaves a tag on immortal objects.
inline PyObject* Untagged(PyObject* slot) {
#if PY_VERSION_HEX >= 0x030E0000
  return reinterpret_cast<PyObject*>(reinterpret_cast<std::uintptr_t>(slot) & ~std::uintptr_t{1});
#else
  return slot;
#endif
}
int SlotCount(PyCodeObject* code);                       // locals + cells + free variables
int StackDepth(const Frame* frame);                      // of a suspended or not yet started frame
int NextInstruction(const Frame* frame);                 // index in code units
inline bool IsGeneratorCode(const PyCodeObject* code) {  // a call of it makes one
  return (code->co_flags & (CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR)) != 0;
}
bool IsGenerator(const Frame* frame);  // owned by a generator, coroutine or async generator
bool IsStarting(const Frame* frame);   // no instruction executed yet
FrameView View(Frame* frame);          // of a frame that is not executing
// The innermost frame that this thread executes, and who called a frame that executes; null: none. Borrowed.
Frame* CurrentFrame(PyThreadState* thread);
Frame* CallerOf(const Frame* frame);

// ---- writing a frame that is not executing
void SetNextInstruction(Frame* frame, int instruction);  // next to execute
void SetStackDepth(Frame* frame, int depth);

// ---- making and freeing frames
// A copy on the thread's data stack: function, code, globals, builtins, locals; slots copied (new references).
// Data-stack frames must be freed in the reverse order of their making. Null with MemoryError set on failure.
Frame* CopyFrame(PyThreadState* thread, Frame* frame);
// A frame of `function` before its first instruction, slots null, on the data stack.
Frame* NewFrame(PyThreadState* thread, PyFunctionObject* function, PyObject* locals);
void ClearAndPopFrame(PyThreadState* thread, Frame* frame);  // drops its references; keeps a live frame object valid
// For a frame of NewFrame's that ran to its end, by EvalDefault or with FinishHookedFrame: what is left to a caller.
void ReleaseFrame(PyThreadState* thread, Frame* frame);
// What the hook must do to its frame when it has returned or raised (not when a generator yields): 3.12 clears it,
// generator frames included; in 3.11 the caller does.
void FinishHookedFrame(PyThreadState* thread, Frame* frame);

// ---- executing (used by symbolic/evaluator only)
struct Linkage {
  alignas(8) unsigned char storage[64];  // CPython's _PyCFrame, up to 3.12
};
// Links the frame as the thread's current one, with recursion check; false: RecursionError is set, not linked.
bool Enter(PyThreadState* thread, Frame* frame, Linkage* linkage);
void Leave(PyThreadState* thread, Frame* frame, Linkage* linkage);
CodeUnit* CodeUnits(PyCodeObject* code);
// Where an executing frame keeps the instruction that it executes, as a pointer into CodeUnits: line numbers and
// tracebacks read it. From 3.13 on the next one is there while the frame is not executing.
CodePointer* LastInstructionField(Frame* frame);
int LastInstruction(const Frame* frame);  // of an executing frame: index in code units
void SetLastInstruction(Frame* frame, int instruction);
void AddTraceback(PyThreadState* thread, Frame* frame);  // PyTraceBack_Here for the current error
bool HasPendingWork(PyThreadState* thread);              // eval breaker: signals, GIL requests, async exceptions, GC
int HandlePendingWork(PyThreadState* thread);            // 0, or -1 with an error set
bool IsMainThread();                                     // on which Python runs the handlers of signals
bool HasPendingSignals();                                // whose handlers the current thread would run

// ---- handled exception (tstate->exc_info), normalised exception instances
Ref HandledException(PyThreadState* thread);  // of this frame's or generator's own level, or null
void SetHandledException(PyThreadState* thread, Ref exception);
// `raise … from C` is a TypeError where calling C makes no exception.
inline constexpr bool kChecksCalledCause = PY_VERSION_HEX >= 0x030D0000;
// What cannot be awaited, with one %.100s for its type.
inline constexpr const char* kNotAwaitable = PY_VERSION_HEX >= 0x030E0000
                                                 ? "'%.100s' object can't be awaited"
                                                 : "object %.100s can't be used in 'await' expression";
Ref FetchRaised(PyThreadState* thread);  // takes the current error as an instance with traceback
void RestoreRaised(PyThreadState* thread, Ref exception);

// ---- what instructions of 3.14 name by a number (before it, nothing)
PyObject* CommonConstant(PyThreadState* thread, int which);  // borrowed
enum class SpecialMethod : std::uint8_t { kEnter, kExit, kAsyncEnter, kAsyncExit };
// Bound; null with the TypeError of a `with` statement where the object has none.
Ref LoadSpecialMethod(PyObject* object, SpecialMethod which);
PyObject* NameOf(SpecialMethod which);  // borrowed
// `except*` as CPython's own; false: that is hidden here, and nothing is done. *done is false where an error is set.
bool MatchExceptionGroup(Frame* frame, PyObject* exception, PyObject* type, Ref* match, Ref* rest, bool* done);
// The objects of a t-string; `format` may be null.
Ref MakeInterpolation(PyObject* value, PyObject* text, int conversion, PyObject* format);
Ref MakeTemplate(PyObject* strings, PyObject* interpolations);

// If the current error says that a call's keyword came twice (as merging dicts for a call raises it), clears it and
// returns the keyword; else null.
Ref TakeRepeatedKey();
// ImportError with `message`, `name` (the module's), `path` (may be null) and, where this Python has it, name_from.
void SetImportError(PyObject* message, PyObject* name, PyObject* path, PyObject* name_from);
// What CALL_INTRINSIC_{1,2} `which` (3.12's numbers) returns for `inputs`, executed by CPython in a frame of its own
// with the globals of `frame`: the functions behind are hidden. Null with an error set.
Ref RunIntrinsic(Frame* frame, int which, PyObject* const* inputs, int input_count);

// ---- generators
// Marks a generator's frame as suspended at a yield and pops its exc_info where the evaluator does that.
// The frame is no longer linked.
void SuspendGenerator(PyThreadState* thread, Frame* frame);
PyObject* GeneratorOf(Frame* frame);  // borrowed

// ---- code objects
Py_ssize_t NewCodeExtraIndex(freefunc free);
void* CodeExtra(PyCodeObject* code, Py_ssize_t index);  // null if none
bool SetCodeExtra(PyCodeObject* code, Py_ssize_t index, void* extra);

// ---- objects' private parts, never materialised and never running code
PyObject* RawInstanceAttr(PyObject* object, PyObject* name);  // borrowed or null; dict or inline values
PyObject* RawInstanceDict(PyObject* object);                  // borrowed or null (not materialised)
// The next of the object's own attributes in their order, from *position 0 on; borrowed, dict or inline values.
bool NextInstanceAttr(PyObject* object, Py_ssize_t* position, PyObject** name, PyObject** value);
bool SharesKeys(PyObject* dict);                           // a split table, as objects' attributes have
bool HasInstanceAttrs(PyObject* object);                   // has a dict or may have one
std::uint32_t TypeVersion(PyTypeObject* type);             // tp_version_tag, assigned if possible; 0: none
PyObject* TypeLookup(PyTypeObject* type, PyObject* name);  // _PyType_Lookup: borrowed or null, no error
void SetEmptySlotError(PyObject* object, PyObject* name);  // the AttributeError of a read of a slot that holds nothing
PyObject* TypeDict(PyTypeObject* type);                    // its own names; borrowed. tp_dict may be null from 3.12 on
// Writes (or deletes, value null) an attribute of the object's own, past any descriptor; false: a Python error is set.
bool SetRawInstanceAttr(PyObject* object, PyObject* name, PyObject* value);
// A special method looked up on the type and bound, as `with` and class patterns do; null without error: none.
Ref LookupSpecial(PyObject* object, PyObject* name);

}  // namespace framefuse::frame_ops

#endif  // FRAMEFUSE_FRAME_EVAL_VERSIONS_FRAME_OPS_H_
