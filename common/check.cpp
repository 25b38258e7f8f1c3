// How a bug of ours is reported: the message, and the end of the process where FF_CHECK asks for it.
#include "common/check.h"

#include <cstdio>
#include <cstdlib>

namespace framefuse::check_internal {
namespace {

std::string Describe(const char* file, int line, const std::string& message) {
  return "framefuse: internal error at " + std::string(file) + ":" + std::to_string(line) + ": " + message;
}

}  // namespace

void Fail(const char* file, int line, const std::string& message) {
  std::fprintf(stderr, "%s\nThis is a bug in framefuse; please report it with the program that shows it.\n",
               Describe(file, line, message).c_str());
  std::fflush(stderr);
  std::abort();
}

absl::Status Bug(const char* file, int line, const std::string& message) {
  return absl::InternalError(Describe(file, line, message));
}

}  // namespace framefuse::check_internal
