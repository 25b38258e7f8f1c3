// Whether the filters of warnings may be a context's own: the list in the module `warnings` does not tell all then.
#ifndef FRAMEFUSE_FRAME_EVAL_VERSIONS_WARNING_FILTERS_H_
#define FRAMEFUSE_FRAME_EVAL_VERSIONS_WARNING_FILTERS_H_

#include <Python.h>

namespace framefuse {

inline constexpr bool kFiltersMayBeOfAContext = PY_VERSION_HEX >= 0x030E0000;

}  // namespace framefuse

#endif  // FRAMEFUSE_FRAME_EVAL_VERSIONS_WARNING_FILTERS_H_
