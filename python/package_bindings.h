// Export and packages, made callable from Python (docs/export.md).
#ifndef FRAMEFUSE_PYTHON_PACKAGE_BINDINGS_H_
#define FRAMEFUSE_PYTHON_PACKAGE_BINDINGS_H_

#include <pybind11/pybind11.h>

namespace framefuse {

void BindPackages(pybind11::module_& m);

}  // namespace framefuse

#endif  // FRAMEFUSE_PYTHON_PACKAGE_BINDINGS_H_
