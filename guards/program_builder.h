// BuildProgram: orders facts by source, groups the reads of a container into a block and decides which facts follow
// from an unchanged container alone (see program.h).
#ifndef FRAMEFUSE_GUARDS_PROGRAM_BUILDER_H_
#define FRAMEFUSE_GUARDS_PROGRAM_BUILDER_H_

#include <memory>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "guards/program.h"

namespace framefuse {

// `image` comes with specs, global state, overlap and slot names filled in.
absl::StatusOr<std::unique_ptr<GuardProgram>> BuildProgram(std::unique_ptr<ProgramImage> image,
                                                           const SourceTable& sources, absl::Span<const Guard> guards,
                                                           absl::Span<const SourceId> also_resolve);

// Makes one step of each run of instance blocks in `quick` whose dicts can be read at once.
void BatchInstances(ProgramImage* image);

}  // namespace framefuse

#endif  // FRAMEFUSE_GUARDS_PROGRAM_BUILDER_H_
