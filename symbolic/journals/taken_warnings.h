// Warnings of Python's that captured code is about to show, taken for its entry (deferred_warnings.h).
// Invariant: one is taken only if the entry can say the same later, with the same text and place.
#ifndef FRAMEFUSE_SYMBOLIC_JOURNALS_TAKEN_WARNINGS_H_
#define FRAMEFUSE_SYMBOLIC_JOURNALS_TAKEN_WARNINGS_H_

#include <optional>
#include <string_view>

#include "frame_eval/versions/frame_ops.h"
#include "symbolic/entry/deferred_warnings.h"

namespace framefuse {

class FrameStack;
class ReadJournal;

// Of a frame of warnings._showwarnmsg that is about to start. Nothing: it cannot be said later.
std::optional<DeferredWarning> TakeWarning(PyThreadState* thread, frame_ops::Frame* show, const FrameStack& frames,
                                           ReadJournal& reads);

// One that numpy may say of what the innermost frame does now. Nothing: the entry could not say it there.
std::optional<DeferredWarning> NumpyWarningHere(const FrameStack& frames, std::string_view text);

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_JOURNALS_TAKEN_WARNINGS_H_
