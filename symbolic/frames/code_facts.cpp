#include "symbolic/frames/code_facts.h"

#include "frame_eval/versions/frame_ops.h"
#include "symbolic/frames/installed_code.h"
#include "symbolic/rules/call_rules.h"

namespace framefuse {
namespace {

// The slot's pointer is the bits themselves: nothing is allocated, and nothing is to be freed.
constexpr std::uintptr_t kKnown = 1, kImport = 2, kSkipped = 4, kInstalled = 8, kText = 16, kDispatchHandler = 32;

Py_ssize_t ExtraIndex() {
  static const Py_ssize_t index = frame_ops::NewCodeExtraIndex(nullptr);
  return index;
}

std::uintptr_t FindOut(PyCodeObject* code) {
  std::uintptr_t bits = kKnown;
  if (IsImportCode(code)) bits |= kImport;
  if (IsSkippedCode(code)) bits |= kSkipped;
  if (IsInstalled(code)) bits |= kInstalled;
  if (PyUnicode_CompareWithASCIIString(code->co_filename, "<string>") == 0) bits |= kText;
  if (PyUnicode_CompareWithASCIIString(code->co_name, "__torch_dispatch__") == 0) bits |= kDispatchHandler;
  return bits;
}

}  // namespace

CodeFacts FactsOf(PyCodeObject* code) {
  auto bits = reinterpret_cast<std::uintptr_t>(frame_ops::CodeExtra(code, ExtraIndex()));
  if (bits == 0) {
    bits = FindOut(code);
    // Without memory for the slot they are found out again.
    if (!frame_ops::SetCodeExtra(code, ExtraIndex(), reinterpret_cast<void*>(bits))) PyErr_Clear();
  }
  const auto has = [bits](std::uintptr_t bit) { return (bits & bit) != 0; };
  return {has(kImport), has(kSkipped), has(kInstalled), has(kText), has(kDispatchHandler)};
}

}  // namespace framefuse
