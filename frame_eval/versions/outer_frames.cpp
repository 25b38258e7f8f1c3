#include "frame_eval/versions/internal.h"
// internal.h first: it changes what Python.h declares.
#include "frame_eval/versions/outer_frames.h"

namespace framefuse::frame_ops {

static_assert(sizeof(_PyInterpreterFrame::localsplus[0]) == sizeof(PyObject*));

PyObject* LocalOf(const Frame* frame, int slot) {
  using Word [[gnu::may_alias]] = PyObject*;
  return Untagged(reinterpret_cast<const Word*>(frame->localsplus)[slot]);
}

}  // namespace framefuse::frame_ops
