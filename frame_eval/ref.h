// Ref and BorrowedRef: ownership of Python objects, in the type.
// Invariant: a non-null Ref holds exactly one reference; a BorrowedRef holds none and must not outlive
// its owner. Everything outside frame_eval/versions/, this file and signatures that CPython dictates uses
// these two instead of PyObject*. All operations need the GIL.
#ifndef FRAMEFUSE_FRAME_EVAL_REF_H_
#define FRAMEFUSE_FRAME_EVAL_REF_H_

#include <Python.h>

#include <cstddef>
#include <functional>
#include <utility>

namespace framefuse {

template <class T = PyObject>
class BorrowedRefOf {
 public:
  constexpr BorrowedRefOf() = default;
  constexpr BorrowedRefOf(std::nullptr_t) {}     // NOLINT(runtime/explicit)
  BorrowedRefOf(T* object) : object_(object) {}  // NOLINT(runtime/explicit)

  T* get() const { return object_; }
  T* operator->() const { return object_; }
  explicit operator bool() const { return object_ != nullptr; }
  operator T*() const { return object_; }  // NOLINT(runtime/explicit): passes to the C API

  PyObject* as_object() const { return reinterpret_cast<PyObject*>(object_); }
  PyTypeObject* type() const { return Py_TYPE(as_object()); }

  friend bool operator==(BorrowedRefOf a, BorrowedRefOf b) { return a.object_ == b.object_; }
  template <class H>
  friend H AbslHashValue(H h, BorrowedRefOf r) {
    return H::combine(std::move(h), r.object_);
  }

 private:
  T* object_ = nullptr;
};
using BorrowedRef = BorrowedRefOf<PyObject>;

template <class T = PyObject>
class RefOf {
 public:
  constexpr RefOf() = default;
  constexpr RefOf(std::nullptr_t) {}  // NOLINT(runtime/explicit)
  RefOf(const RefOf& other) : object_(other.object_) { Py_XINCREF(as_object()); }
  RefOf(RefOf&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  ~RefOf() { Py_XDECREF(as_object()); }
  RefOf& operator=(RefOf other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }

  // Takes over a new reference, as C API functions return it; null stays null.
  static RefOf Steal(T* object) {
    RefOf ref;
    ref.object_ = object;
    return ref;
  }
  // Adds a reference to a borrowed object; null stays null.
  static RefOf Create(T* object) {
    Py_XINCREF(reinterpret_cast<PyObject*>(object));
    return Steal(object);
  }

  T* get() const { return object_; }
  T* operator->() const { return object_; }
  explicit operator bool() const { return object_ != nullptr; }
  operator T*() const& { return object_; }  // NOLINT(runtime/explicit): passes to the C API
  operator T*() && = delete;                // a temporary's pointer would dangle
  operator BorrowedRefOf<T>() const& { return BorrowedRefOf<T>(object_); }  // NOLINT

  // Gives the reference up to a C API that steals it.
  [[nodiscard]] T* release() { return std::exchange(object_, nullptr); }
  void reset() { RefOf().swap(*this); }
  void swap(RefOf& other) noexcept { std::swap(object_, other.object_); }

  PyObject* as_object() const { return reinterpret_cast<PyObject*>(object_); }
  PyTypeObject* type() const { return Py_TYPE(as_object()); }

 private:
  T* object_ = nullptr;
};
using Ref = RefOf<PyObject>;

}  // namespace framefuse

#endif  // FRAMEFUSE_FRAME_EVAL_REF_H_
