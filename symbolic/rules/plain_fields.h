// Plain fields: attributes of functions and types that are read as they are.
#ifndef FRAMEFUSE_SYMBOLIC_RULES_PLAIN_FIELDS_H_
#define FRAMEFUSE_SYMBOLIC_RULES_PLAIN_FIELDS_H_

#include <string_view>

namespace framefuse {

// Which field it is the object's identity fixes, or nobody changes it between calls without changing the object, or a
// guard of its own is added where it is read: __mro__, __bases__, a class's names.
bool IsPlainField(std::string_view name);

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_RULES_PLAIN_FIELDS_H_
