// A stretch in which Python code runs that is torch's or ours, and none of the program's (Recorder::InOwnPython).
// Nests.
#ifndef FRAMEFUSE_SYMBOLIC_TRACING_OWN_PYTHON_H_
#define FRAMEFUSE_SYMBOLIC_TRACING_OWN_PYTHON_H_

namespace framefuse::tracing {

class OwnPythonScope {
 public:
  OwnPythonScope();
  ~OwnPythonScope();
  OwnPythonScope(const OwnPythonScope&) = delete;
  OwnPythonScope& operator=(const OwnPythonScope&) = delete;
};

// Of this thread: frames entered then are not the program's.
bool InOwnPython();

}  // namespace framefuse::tracing

#endif  // FRAMEFUSE_SYMBOLIC_TRACING_OWN_PYTHON_H_
