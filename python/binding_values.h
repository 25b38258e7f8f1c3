// What bindings share: objects of Python as references and back, and errors of C++ as exceptions.
#ifndef FRAMEFUSE_PYTHON_BINDING_VALUES_H_
#define FRAMEFUSE_PYTHON_BINDING_VALUES_H_

#include <pybind11/pybind11.h>

#include <string>

#include "absl/status/status.h"
#include "common/status.h"
#include "frame_eval/ref.h"

namespace framefuse {

namespace py = pybind11;

inline BorrowedRef Borrow(const py::handle& object) { return BorrowedRef(object.ptr()); }
inline Ref ToRef(const py::object& object) { return object.is_none() ? Ref() : Ref::Create(object.ptr()); }

inline py::object ToPython(Ref object) {
  if (!object) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(object.release());
}

inline void RaiseIfError(const absl::Status& status) {
  if (status.ok()) return;
  const std::string message = MessageOf(status);
  if (status.code() == absl::StatusCode::kNotFound) throw py::attribute_error(message);
  if (status.code() == absl::StatusCode::kInvalidArgument) throw py::type_error(message);
  if (status.code() == absl::StatusCode::kOutOfRange) throw py::value_error(message);
  PyErr_SetString(PyExc_RuntimeError, message.c_str());
  throw py::error_already_set();
}

inline void RaiseIfFileError(const absl::Status& status) {
  if (status.code() == absl::StatusCode::kUnavailable) {
    PyErr_SetString(PyExc_OSError, MessageOf(status).c_str());
    throw py::error_already_set();
  }
  RaiseIfError(status);
}

}  // namespace framefuse

#endif  // FRAMEFUSE_PYTHON_BINDING_VALUES_H_
