#include "symbolic/rules/operator_functions.h"

#include <algorithm>
#include <array>

#include "absl/container/flat_hash_map.h"
#include "frame_eval/import_module.h"

namespace framefuse {
namespace {

constexpr std::array<std::string_view, 26> kOperatorNames = {
    "add",    "and_", "floordiv", "lshift", "matmul",  "mul",  "mod",       "or_",     "pow",
    "rshift", "sub",  "truediv",  "xor",    "iadd",    "iand", "ifloordiv", "ilshift", "imatmul",
    "imul",   "imod", "ior",      "ipow",   "irshift", "isub", "itruediv",  "ixor"};

}  // namespace

BorrowedRef OperatorFunction(int nb_op) {
  static PyObject* functions[kOperatorNames.size()] = {};
  if (functions[nb_op] == nullptr) {
    Ref module = ImportModule("operator");
    functions[nb_op] = PyObject_GetAttrString(module, kOperatorNames[static_cast<std::size_t>(nb_op)].data());
  }
  return functions[nb_op];
}

BorrowedRef NamedOperator(const char* name) {
  static auto* cache = new absl::flat_hash_map<std::string, PyObject*>();
  PyObject*& slot = (*cache)[name];
  if (slot == nullptr) {
    Ref module = ImportModule("operator");
    slot = PyObject_GetAttrString(module, name);
  }
  return slot;
}

int OperatorNumber(std::string_view name) {
  return static_cast<int>(std::find(kOperatorNames.begin(), kOperatorNames.end(), name) - kOperatorNames.begin());
}

}  // namespace framefuse
