// CountingProgram: a guard program that counts which kinds of its guards held and which failed (common/coverage.h).
// Made instead of the plain one only while kinds are counted. After each check it walks the guards once more as
// explain.cpp does, and says so where the two do not agree.
// Invariant: answers are the inner program's.
#ifndef FRAMEFUSE_GUARDS_COUNTING_PROGRAM_H_
#define FRAMEFUSE_GUARDS_COUNTING_PROGRAM_H_

#include <memory>

#include "guards/program.h"

namespace framefuse {

std::unique_ptr<GuardProgram> MakeCountingProgram(std::unique_ptr<CompiledProgram> inner);

}  // namespace framefuse

#endif  // FRAMEFUSE_GUARDS_COUNTING_PROGRAM_H_
