// The accuracy probe (backends/runtime/accuracy_probe.h) in Python: framefuse/_accuracy.py.
// Invariant: what goes wrong in it is told on stderr, and changes nothing for the program.
#ifndef FRAMEFUSE_PYTHON_ACCURACY_PROBE_H_
#define FRAMEFUSE_PYTHON_ACCURACY_PROBE_H_

#include "backends/runtime/accuracy_probe.h"
#include "frame_eval/ref.h"

namespace framefuse {

// `begin(text, description, whole, inputs, symbols)` returns None, or `end(error or None, outputs)`.
AccuracyProbe MakeAccuracyProbe(Ref begin);

}  // namespace framefuse

#endif  // FRAMEFUSE_PYTHON_ACCURACY_PROBE_H_
