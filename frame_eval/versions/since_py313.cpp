// What CPython does alike from 3.13 on: frames without a chain of C frames, inline values of objects.
#include "frame_eval/versions/internal.h"

#if PY_VERSION_HEX >= 0x030d0000

#ifdef Py_GIL_DISABLED
#error "framefuse needs the GIL: free-threaded builds of Python are not supported"
#endif

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
extern "C" {
#include "internal/pycore_intrinsics.h"
}
#pragma GCC diagnostic pop

#include "frame_eval/versions/dict_reads.h"
#include "frame_eval/versions/frame_ops.h"
#include "frame_eval/versions/object_ops.h"

namespace framefuse::frame_ops {
namespace {

bool HasBits(PyThreadState* thread, std::uintptr_t bits) {
  return (__atomic_load_n(&thread->eval_breaker, __ATOMIC_RELAXED) & bits) != 0;
}

// The values that lie in the object itself; null: it has none, or its dict has taken them over.
PyDictValues* InlineValues(PyObject* object) {
  if ((Py_TYPE(object)->tp_flags & Py_TPFLAGS_INLINE_VALUES) == 0) return nullptr;
  PyDictValues* values = _PyObject_InlineValues(object);
  return values->valid != 0 ? values : nullptr;
}

static_assert(offsetof(PyDictValues, embedded) == kEmbeddedValuesFlag);
static_assert(MANAGED_DICT_OFFSET == -3 * static_cast<Py_ssize_t>(sizeof(PyObject*)));

}  // namespace

// A frame that is not executing keeps its next instruction there, an executing one the current.
int NextInstruction(const Frame* frame) { return LastInstruction(frame); }
void SetNextInstruction(Frame* frame, int instruction) { SetLastInstruction(frame, instruction); }
CodePointer* LastInstructionField(Frame* frame) { return reinterpret_cast<CodePointer*>(&frame->instr_ptr); }
int LastInstruction(const Frame* frame) { return static_cast<int>(frame->instr_ptr - _PyCode_CODE(Code(frame))); }
void SetLastInstruction(Frame* frame, int instruction) { frame->instr_ptr = _PyCode_CODE(Code(frame)) + instruction; }

// The upper bits of the word are a version of their own.
bool HasPendingWork(PyThreadState* thread) { return HasBits(thread, _PY_EVAL_EVENTS_MASK); }
bool HasPendingSignals() { return IsMainThread() && HasBits(PyThreadState_Get(), _PY_SIGNALS_PENDING_BIT); }
int HandlePendingWork(PyThreadState* thread) { return _Py_HandlePending(thread); }

Ref RunIntrinsic(Frame*, int which, PyObject* const* inputs, int input_count) {
  PyThreadState* thread = PyThreadState_Get();
  if (input_count == 1) return Ref::Steal(_PyIntrinsics_UnaryFunctions[which].func(thread, inputs[0]));
  return Ref::Steal(_PyIntrinsics_BinaryFunctions[which].func(thread, inputs[0], inputs[1]));
}

PyObject* RawInstanceDict(PyObject* object) {
  if (Py_TYPE(object)->tp_flags & Py_TPFLAGS_MANAGED_DICT) {
    return reinterpret_cast<PyObject*>(_PyObject_GetManagedDict(object));
  }
  PyObject** slot = DictSlot(object);
  return slot == nullptr ? nullptr : *slot;
}

PyObject* RawInstanceAttr(PyObject* object, PyObject* name) {
  if (PyDictValues* values = InlineValues(object)) {
    auto* type = reinterpret_cast<PyHeapTypeObject*>(Py_TYPE(object));
    const Py_ssize_t index = SharedKeyIndex(type->ht_cached_keys, name);
    return index < 0 ? nullptr : values->values[index];
  }
  return DictItem(RawInstanceDict(object), name);
}

bool NextInstanceAttr(PyObject* object, Py_ssize_t* position, PyObject** name, PyObject** value) {
  if (PyDictValues* values = InlineValues(object)) {
    const auto* order = reinterpret_cast<const std::uint8_t*>(&values->values[values->capacity]);
    return NextInlineValue(reinterpret_cast<PyHeapTypeObject*>(Py_TYPE(object))->ht_cached_keys, values->values, order,
                           1, values->size, position, name, value);
  }
  PyObject* dict = RawInstanceDict(object);
  return dict != nullptr && PyDict_Next(dict, position, name, value) != 0;
}

}  // namespace framefuse::frame_ops

#endif
