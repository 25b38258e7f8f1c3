// CodeFacts: what the hook asks of a code object at each of its frames and what its file and name alone answer. They
// are found out once and kept in the code's extra slot, so that a frame that runs as Python costs little. Invariant:
// runs no Python; the answers are those of IsImportCode, IsSkippedCode, IsInstalled and the like.
#ifndef FRAMEFUSE_SYMBOLIC_FRAMES_CODE_FACTS_H_
#define FRAMEFUSE_SYMBOLIC_FRAMES_CODE_FACTS_H_

#include <Python.h>

#include <cstdint>

namespace framefuse {

struct CodeFacts {
  bool is_import = false;            // of importlib's frozen part
  bool is_skipped = false;           // the standard library's, torch's, ours
  bool is_installed = false;         // an installer put it there
  bool is_text = false;              // made from a text, "<string>"
  bool is_dispatch_handler = false;  // a `__torch_dispatch__`
};

[[nodiscard]] CodeFacts FactsOf(PyCodeObject* code);

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_FRAMES_CODE_FACTS_H_
