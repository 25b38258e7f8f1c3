// known_metaclass: which metaclasses make a class and change nothing else, so that an attempt may run them.
// Invariant: the metaclasses are found once, when the package is imported, and kept alive for ever.
#ifndef FRAMEFUSE_SYMBOLIC_RULES_KNOWN_METACLASS_H_
#define FRAMEFUSE_SYMBOLIC_RULES_KNOWN_METACLASS_H_

#include <cstdint>

#include "frame_eval/ref.h"

namespace framefuse {

enum class KnownMetaclass : std::uint8_t {
  kNone,
  kType,
  kAbstract,    // abc.ABCMeta: it looks for abstract methods
  kFunction,    // torch.autograd.function.FunctionMeta: it makes a second class and takes a number for it
  kEnum,        // enum.EnumType: members are made by code of the class
  kNamedTuple,  // typing.NamedTupleMeta: the class is another one, derived from tuple
};

KnownMetaclass FindKnownMetaclass(BorrowedRef metaclass);
// As __build_class__ chooses; null: the bases' metaclasses conflict, or one is no class.
PyTypeObject* WinningMetaclass(PyTypeObject* given, PyObject* const* bases, std::size_t count);
// The class in whose place a base stands that is none (typing.NamedTuple); null: any other.
PyObject* ClassOfBase(BorrowedRef base);

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_RULES_KNOWN_METACLASS_H_
