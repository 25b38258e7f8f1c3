#include "frame_eval/versions/data_stack.h"

#include <cstring>

#include "frame_eval/versions/frame_ops.h"

namespace framefuse::frame_ops {
namespace {

constexpr int kChunkBytes = 16 * 1024;
constexpr int kMinimumOverhead = 1000;

PyObjectArenaAllocator Arena() {
  PyObjectArenaAllocator arena;
  PyObject_GetArenaAllocator(&arena);
  return arena;
}

PyObject** PushChunk(PyThreadState* thread, int size) {
  int bytes = kChunkBytes;
  while (bytes < static_cast<int>(sizeof(PyObject*)) * (size + kMinimumOverhead)) bytes *= 2;
  PyObjectArenaAllocator arena = Arena();
  auto* chunk = static_cast<_PyStackChunk*>(arena.alloc(arena.ctx, bytes));
  if (chunk == nullptr) {
    PyErr_NoMemory();
    return nullptr;
  }
  chunk->previous = thread->datastack_chunk;
  chunk->size = bytes;
  chunk->top = 0;
  if (thread->datastack_chunk != nullptr) {
    thread->datastack_chunk->top = thread->datastack_top - &thread->datastack_chunk->data[0];
  }
  thread->datastack_chunk = chunk;
  thread->datastack_limit = reinterpret_cast<PyObject**>(reinterpret_cast<char*>(chunk) + bytes);
  // The root chunk is never popped: skipping its first element keeps a frame from being its base.
  PyObject** base = &chunk->data[chunk->previous == nullptr ? 1 : 0];
  thread->datastack_top = base + size;
  return base;
}

#if PY_VERSION_HEX < 0x030D0000
// The nearest frame from `frame` outwards that Python code may see.
_PyInterpreterFrame* FirstComplete(_PyInterpreterFrame* frame) {
  while (frame != nullptr && _PyFrame_IsIncomplete(frame)) frame = frame->previous;
  return frame;
}

// The frame's frame object, made if needed (its maker is hidden: ask for the current frame's). New reference.
PyFrameObject* FrameObjectOf(PyThreadState* thread, _PyInterpreterFrame* frame) {
  _PyInterpreterFrame* current = thread->cframe->current_frame;
  thread->cframe->current_frame = frame;
  PyFrameObject* object = PyThreadState_GetFrame(thread);
  thread->cframe->current_frame = current;
  return object;
}
#endif

}  // namespace

PyObject** PushDataStack(PyThreadState* thread, int size) {
  if (thread->datastack_top != nullptr && size < thread->datastack_limit - thread->datastack_top) {
    PyObject** base = thread->datastack_top;
    thread->datastack_top += size;
    return base;
  }
  return PushChunk(thread, size);
}

#if PY_VERSION_HEX < 0x030D0000
void PopDataStack(PyThreadState* thread, PyObject** base) {
  if (base != &thread->datastack_chunk->data[0]) {
    thread->datastack_top = base;
    return;
  }
  _PyStackChunk* chunk = thread->datastack_chunk;
  _PyStackChunk* previous = chunk->previous;
  thread->datastack_top = &previous->data[previous->top];
  thread->datastack_chunk = previous;
  thread->datastack_limit = reinterpret_cast<PyObject**>(reinterpret_cast<char*>(previous) + previous->size);
  PyObjectArenaAllocator arena = Arena();
  arena.free(arena.ctx, chunk, chunk->size);
}

void MoveToFrameObject(PyThreadState* thread, PyFrameObject* object, _PyInterpreterFrame* frame) {
  const std::size_t size =
      reinterpret_cast<char*>(&frame->localsplus[frame->stacktop]) - reinterpret_cast<char*>(frame);
  auto* copy = reinterpret_cast<_PyInterpreterFrame*>(object->_f_frame_data);
  std::memcpy(static_cast<void*>(copy), frame, size);
  object->f_frame = copy;
  copy->owner = FRAME_OWNED_BY_FRAME_OBJECT;
  if (_PyFrame_IsIncomplete(copy)) {
    // It is dead anyway: pretend that its first RESUME ran.
    SetLastInstruction(copy, Code(copy)->_co_firsttraceable);
  }
  _PyInterpreterFrame* caller = FirstComplete(copy->previous);
  copy->previous = nullptr;
  if (caller != nullptr) {
    PyFrameObject* back = FrameObjectOf(thread, caller);
    if (back == nullptr) PyErr_Clear();  // out of memory: the chain ends here
    object->f_back = back;
  }
  if (!PyObject_GC_IsTracked(reinterpret_cast<PyObject*>(object))) PyObject_GC_Track(object);
}
#endif

}  // namespace framefuse::frame_ops
