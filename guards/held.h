// Held: an object that a guard expects, kept the way that does not change its life time.
// Code objects, instances of user types, and classes and functions made in a function are held by weak reference where
// their type allows it, so that an entry never keeps a model alive; once the object is dead, the guard fails for good.
// Other types, functions, modules and immutables are held strongly.
#ifndef FRAMEFUSE_GUARDS_HELD_H_
#define FRAMEFUSE_GUARDS_HELD_H_

#include "frame_eval/ref.h"
#include "frame_eval/versions/private_api.h"

namespace framefuse {

class Held {
 public:
  Held() = default;
  explicit Held(BorrowedRef object);
  // For what a recipe uses and sources start from: weak for classes and functions made in a function, and lru_cache's
  // wrappers. A program looks whether such constants are alive before it reads anything.
  static Held ForUse(BorrowedRef object);
  // For a constant source: an element of a container is held as a guard holds it.
  static Held OfConstant(BorrowedRef object, bool element) { return element ? Held(object) : ForUse(object); }

  // Null once the object is dead (or if there was none).
  BorrowedRef get() const {
    if (!weak_) return reference_.get();
    PyObject* object = private_api::Referent(reference_.get());
    return object == Py_None ? nullptr : object;
  }
  bool Is(BorrowedRef object) const { return object && get() == object; }
  bool weak() const { return weak_; }
  bool empty() const { return !reference_; }
  // The object itself, or the weak reference to it.
  BorrowedRef reference() const { return reference_; }

 private:
  void HoldWeakly();

  Ref reference_;
  bool weak_ = false;
};

// A class made in a function.
bool IsLocalClass(BorrowedRef object);

}  // namespace framefuse

#endif  // FRAMEFUSE_GUARDS_HELD_H_
