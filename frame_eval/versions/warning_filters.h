// Whether the filters of warnings may be a context's own: the list in the module `warnings` does not tell all then.
// Python 3.14 decides it when the process starts (-X context_aware_warnings); it does not without being asked.
#ifndef FRAMEFUSE_FRAME_EVAL_VERSIONS_WARNING_FILTERS_H_
#define FRAMEFUSE_FRAME_EVAL_VERSIONS_WARNING_FILTERS_H_

namespace framefuse {

bool FiltersMayBeOfAContext();

}  // namespace framefuse

#endif  // FRAMEFUSE_FRAME_EVAL_VERSIONS_WARNING_FILTERS_H_
