// entry_guards: the guard program of an entry that an attempt has closed.
// Invariant: what the entry's inputs, sizes and recipes read is resolved by the same pass that checks the guards.
#ifndef FRAMEFUSE_SYMBOLIC_ATTEMPT_ENTRY_GUARDS_H_
#define FRAMEFUSE_SYMBOLIC_ATTEMPT_ENTRY_GUARDS_H_

#include "absl/status/status.h"
#include "symbolic/capture/capture.h"
#include "symbolic/entry/compiled_entry.h"

namespace framefuse {

[[nodiscard]] absl::Status MakeGuards(Capture& capture, CompiledEntry& entry);

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_ATTEMPT_ENTRY_GUARDS_H_
