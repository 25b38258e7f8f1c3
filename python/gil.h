// Gil: holds the GIL in a scope, on any thread.
#ifndef FRAMEFUSE_PYTHON_GIL_H_
#define FRAMEFUSE_PYTHON_GIL_H_

#include <Python.h>

namespace framefuse {

class Gil {
 public:
  Gil() : state_(PyGILState_Ensure()) {}
  ~Gil() { PyGILState_Release(state_); }
  Gil(const Gil&) = delete;
  Gil& operator=(const Gil&) = delete;

 private:
  PyGILState_STATE state_;
};

}  // namespace framefuse

#endif  // FRAMEFUSE_PYTHON_GIL_H_
