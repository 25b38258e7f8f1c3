// A warning that an attempt was about to show. The attempt breaks there and Python warns in its turn, which it would
// not do where a module's registry said that it had done so.
#ifndef FRAMEFUSE_SYMBOLIC_CAPTURE_SHOWN_WARNINGS_H_
#define FRAMEFUSE_SYMBOLIC_CAPTURE_SHOWN_WARNINGS_H_

#include "frame_eval/versions/frame_ops.h"
#include "symbolic/capture/tracked.h"

namespace framefuse {

bool ShowsWarning(PyCodeObject* code);  // of warnings._showwarnmsg
// Takes the warning that `show`, a frame of that function, was called with out of a module's registry.
void ForgetWarning(frame_ops::Frame* show, PyObject* globals);

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_CAPTURE_SHOWN_WARNINGS_H_
