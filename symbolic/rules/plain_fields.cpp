#include "symbolic/rules/plain_fields.h"

#include <algorithm>
#include <iterator>

namespace framefuse {

bool IsPlainField(std::string_view name) {
  static constexpr std::string_view kNames[] = {
      "__name__",       "__qualname__",       "__module__",  "__doc__",     "__code__", "__defaults__",
      "__kwdefaults__", "__closure__",        "__mro__",     "__bases__",   "__base__", "__annotations__",
      "__wrapped__",    "__text_signature__", "__flags__",   "__globals__", "__self__", "__func__",
      "__objclass__",   "__type_params__",    "__annotate__"};
  return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
}

}  // namespace framefuse
