// A second receiver of log records, beside the sink: for the trace. Invariant: what only the tap wants reaches nobody
// else, and switches read back (LogMask) are the user's.
#ifndef FRAMEFUSE_COMMON_LOG_TAP_H_
#define FRAMEFUSE_COMMON_LOG_TAP_H_

#include <cstdint>
#include <string_view>

#include "common/logging.h"

namespace framefuse {

// `artifacts`: bit i for artifact i. Records of these are made and given to `tap`, which may not log.
void SetLogTap(void (*tap)(LogArtifact artifact, std::string_view text), std::uint32_t artifacts);

}  // namespace framefuse

#endif  // FRAMEFUSE_COMMON_LOG_TAP_H_
