// Torch's headers that nearly every file here includes, compiled once. Only the build includes this file.
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <Python.h>
#include <c10/core/SymInt.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <string>
#include <unordered_map>
#include <vector>
