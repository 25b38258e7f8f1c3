// Warnings of Python's in captured code: the entry says them when it runs, by the filters of that moment, with the
// place where the program would have said them. Invariant: an entry whose warning would be an error, or would be heard
// by a function of the program's, does not run: Python does.
#ifndef FRAMEFUSE_SYMBOLIC_ENTRY_DEFERRED_WARNINGS_H_
#define FRAMEFUSE_SYMBOLIC_ENTRY_DEFERRED_WARNINGS_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "frame_eval/ref.h"

namespace framefuse {

struct DeferredWarning {
  Ref text, category, path, line, module;
  const PyCodeObject* code = nullptr;  // compared, never read: where captured code warned
  int instruction = 0;
  std::string place;      // file:line, for people
  bool by_numpy = false;  // which says it itself, if it comes to that

  Ref AsTuple() const;  // for the function that says it
};

// What says a warning: (text, category, path, line, module).
void SetWarningFunction(BorrowedRef function);
BorrowedRef WarningFunction();

// The first that is not to be said behind the graph; `read`: objects that the entry's program reads.
std::optional<std::size_t> FirstThatIsHeard(absl::Span<const DeferredWarning> warnings,
                                            absl::Span<PyObject* const> read);

// The module's dict and the list of filters: what decides what becomes of a warning.
std::vector<PyObject*> WhatDecidesOfWarnings();

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_ENTRY_DEFERRED_WARNINGS_H_
