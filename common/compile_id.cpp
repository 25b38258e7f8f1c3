#include "common/compile_id.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace framefuse {
namespace {

thread_local CompileId current;

}  // namespace

std::string CompileId::Text() const { return frame < 0 ? "" : absl::StrCat(frame, "/", compile); }

CompileId CurrentCompileId() { return current; }

CompileIdScope::CompileIdScope(CompileId id) : outer_(std::exchange(current, id)) {}
CompileIdScope::~CompileIdScope() { current = outer_; }

}  // namespace framefuse
