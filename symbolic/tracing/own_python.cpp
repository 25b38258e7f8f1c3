#include "symbolic/tracing/own_python.h"

namespace framefuse::tracing {
namespace {
thread_local int depth = 0;
}

OwnPythonScope::OwnPythonScope() { ++depth; }
OwnPythonScope::~OwnPythonScope() { --depth; }
bool InOwnPython() { return depth > 0; }

}  // namespace framefuse::tracing
