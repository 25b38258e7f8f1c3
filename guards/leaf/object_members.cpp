#include "guards/leaf/object_members.h"

#include <structmember.h>
#include <torch/csrc/autograd/python_function.h>

#include <cstddef>
#include <string_view>
#include <type_traits>

namespace framefuse {
namespace {

static_assert(std::is_standard_layout_v<THPFunction>);

struct FieldOfFunction {
  std::string_view name;
  Py_ssize_t offset;
};
// Torch sets the first before forward runs, and looks at the others behind it.
constexpr FieldOfFunction kFields[] = {
    {"needs_input_grad", offsetof(THPFunction, needs_input_grad)},
    {"to_save", offsetof(THPFunction, to_save)},
    {"non_differentiable", offsetof(THPFunction, non_differentiable)},
    {"dirty_tensors", offsetof(THPFunction, dirty_tensors)},
};

std::string_view NameIfOfFunction(BorrowedRef descriptor) {
  if (!descriptor || descriptor.type() != &PyGetSetDescr_Type) return {};
  auto* d = reinterpret_cast<PyGetSetDescrObject*>(descriptor.get());
  return d->d_common.d_type == &THPFunctionType ? d->d_getset->name : std::string_view();
}

}  // namespace

std::optional<ObjectMember> ObjectMemberOf(BorrowedRef descriptor) {
  if (descriptor && descriptor.type() == &PyMemberDescr_Type) {
    const PyMemberDef* member = reinterpret_cast<PyMemberDescrObject*>(descriptor.get())->d_member;
    if (member->type != T_OBJECT_EX && member->type != T_OBJECT) return std::nullopt;
    return ObjectMember{member->offset, member->type == T_OBJECT};
  }
  const std::string_view name = NameIfOfFunction(descriptor);
  for (const FieldOfFunction& field : kFields) {
    if (field.name == name) return ObjectMember{field.offset, true};
  }
  return std::nullopt;
}

bool IsSwitchOfFunction(BorrowedRef descriptor) { return NameIfOfFunction(descriptor) == "materialize_grads"; }

bool IsAutogradContextType(PyTypeObject* native_base) { return native_base == &THPFunctionType; }

}  // namespace framefuse
