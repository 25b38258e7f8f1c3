// FF_CHECK, FF_DCHECK, FF_RET_CHECK: bugs of ours, never a user's mistake.
// FF_CHECK(condition) << "why": prints file, line, condition and text, then aborts; for broken invariants after
// which nothing can be trusted (reference counts, frame links).
// FF_RET_CHECK(condition) << "why": returns absl::InternalError with the same text from a function that returns
// Status or StatusOr. The capture's outermost function decides with config().raise_on_bug whether such an error is
// raised to the user or the frame runs in Python and the error is logged once.
#ifndef FRAMEFUSE_COMMON_CHECK_H_
#define FRAMEFUSE_COMMON_CHECK_H_

#include <sstream>
#include <string>

#include "absl/base/attributes.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace framefuse::check_internal {

[[noreturn]] void Fail(const char* file, int line, const std::string& message);
absl::Status Bug(const char* file, int line, const std::string& message);

// Collects the streamed text; dies at the end of the full expression.
class Fatal {
 public:
  ABSL_ATTRIBUTE_COLD Fatal(const char* file, int line, const char* condition) : file_(file), line_(line) {
    text_ << condition << ' ';
  }
  [[noreturn]] ~Fatal() { Fail(file_, line_, text_.str()); }
  std::ostream& stream() { return text_; }

 private:
  const char* file_;
  int line_;
  std::ostringstream text_;
};

// Collects the streamed text; converts to the error that FF_RET_CHECK returns.
class ReturnedBug {
 public:
  ABSL_ATTRIBUTE_COLD ReturnedBug(const char* file, int line, const char* condition) : file_(file), line_(line) {
    text_ << condition << ' ';
  }
  template <class T>
  ReturnedBug& operator<<(const T& value) {
    text_ << value;
    return *this;
  }
  operator absl::Status() const { return Bug(file_, line_, text_.str()); }  // NOLINT(runtime/explicit)
  template <class T>
  operator absl::StatusOr<T>() const {  // NOLINT(runtime/explicit)
    return Bug(file_, line_, text_.str());
  }

 private:
  const char* file_;
  int line_;
  std::ostringstream text_;
};

// Gives `cond ? void : stream` one type.
struct Voidify {
  void operator&(std::ostream&) const {}
};

}  // namespace framefuse::check_internal

#define FF_CHECK(condition)                           \
  (__builtin_expect(static_cast<bool>(condition), 1)) \
      ? static_cast<void>(0)                          \
      : ::framefuse::check_internal::Voidify() &      \
            ::framefuse::check_internal::Fatal(__FILE__, __LINE__, "check failed: " #condition).stream()

// Costs nothing in release builds; its condition must have no side effect.
#ifdef NDEBUG
#define FF_DCHECK(condition) FF_CHECK(true || static_cast<bool>(condition))
#else
#define FF_DCHECK(condition) FF_CHECK(condition)
#endif

#define FF_RET_CHECK(condition)                            \
  if (__builtin_expect(static_cast<bool>(condition), 1)) { \
  } else                                                   \
    return ::framefuse::check_internal::ReturnedBug(__FILE__, __LINE__, "check failed: " #condition)

#endif  // FRAMEFUSE_COMMON_CHECK_H_
