#include "symbolic/rules/self_holding.h"

#include <vector>

#include "absl/container/flat_hash_map.h"

namespace framefuse {
namespace {

bool IsContainer(PyObject* o) { return PyList_CheckExact(o) || PyTuple_CheckExact(o) || PyDict_CheckExact(o); }

std::vector<PyObject*> ContainersIn(PyObject* o) {
  std::vector<PyObject*> found;
  if (PyDict_CheckExact(o)) {
    PyObject *key, *value;
    for (Py_ssize_t at = 0; PyDict_Next(o, &at, &key, &value) != 0;) {
      if (IsContainer(value)) found.push_back(value);
    }
    return found;
  }
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(o); ++i) {
    if (PyObject* item = PySequence_Fast_GET_ITEM(o, i); IsContainer(item)) found.push_back(item);
  }
  return found;
}

}  // namespace

bool HoldsItself(BorrowedRef container) {
  if (!IsContainer(container.get())) return false;
  struct Entered {
    PyObject* container;
    std::vector<PyObject*> open;  // what it holds, and was not looked at
  };
  absl::flat_hash_map<PyObject*, bool> under_way = {{container.get(), true}};
  std::vector<Entered> path = {{container.get(), ContainersIn(container)}};
  while (!path.empty()) {
    if (path.back().open.empty()) {
      under_way[path.back().container] = false;
      path.pop_back();
      continue;
    }
    PyObject* next = path.back().open.back();
    path.back().open.pop_back();
    const auto [place, is_new] = under_way.try_emplace(next, true);
    if (!is_new && place->second) return true;
    if (is_new) path.push_back({next, ContainersIn(next)});
  }
  return false;
}

}  // namespace framefuse
