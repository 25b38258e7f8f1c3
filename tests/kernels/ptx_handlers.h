// What the handlers of the emulated instructions share: operands by number, functions of one to three operands as
// handlers, and the table from an instruction's whole name.
#ifndef FRAMEFUSE_TESTS_KERNELS_PTX_HANDLERS_H_
#define FRAMEFUSE_TESTS_KERNELS_PTX_HANDLERS_H_

#include <map>
#include <string>

#include "tests/kernels/ptx_machine.h"

namespace framefuse::testing::ptx {

using Table = std::map<std::string, Handler>;

// Moves, memory and conversions (ptx_moves.cpp).
void AddMoves(Table* table);

inline const Operand& At(Machine& m, const Instruction& i, std::size_t n) {
  if (n >= i.operands.size()) m.Fail("an operand is missing");
  return i.operands[n];
}
inline void Expect(Machine& m, const Instruction& i, std::size_t count) {
  if (i.operands.size() != count) m.Fail("another number of operands");
}

// `f` from operands of type T to a result of its own type.
template <class T, auto f>
void One(Machine& m, const Instruction& i) {
  Expect(m, i, 2);
  m.Set(At(m, i, 0), f(m.Get<T>(At(m, i, 1))));
}
template <class T, auto f>
void Two(Machine& m, const Instruction& i) {
  Expect(m, i, 3);
  m.Set(At(m, i, 0), f(m.Get<T>(At(m, i, 1)), m.Get<T>(At(m, i, 2))));
}
template <class T, auto f>
void Three(Machine& m, const Instruction& i) {
  Expect(m, i, 4);
  m.Set(At(m, i, 0), f(m.Get<T>(At(m, i, 1)), m.Get<T>(At(m, i, 2)), m.Get<T>(At(m, i, 3))));
}

}  // namespace framefuse::testing::ptx

#endif  // FRAMEFUSE_TESTS_KERNELS_PTX_HANDLERS_H_
