// Machine: the threads of a launch, block after block, each run until it waits for others. It looks at what a GPU does
// not: registers that nobody set, alignment, races in shared memory. Shared memory that nobody set may be read, and
// computed with; it may not reach global memory, an address, a branch or another thread.
// Invariant: what is wrong is thrown as std::runtime_error; ptx::Run makes a status of it.
#ifndef FRAMEFUSE_TESTS_KERNELS_PTX_MACHINE_H_
#define FRAMEFUSE_TESTS_KERNELS_PTX_MACHINE_H_

#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#include "tests/kernels/ptx_program.h"

namespace framefuse::testing::ptx {

enum class Space : std::uint8_t { kGlobal, kShared, kParam };

class Machine {
 public:
  Machine(const Entry& entry, const std::vector<std::int64_t>& words, unsigned threads, const Ranges& memory);
  void RunBlock(unsigned x, unsigned y, unsigned blocks, unsigned rows);

  // --- for handlers

  [[noreturn]] void Fail(const std::string& why) const;

  template <class T>
  T Get(const Operand& from) const {
    T out{};
    if (from.kind == Operand::Kind::kRegister) {
      if (from.bytes != sizeof(T)) Fail("a register of another width");
      const std::uint64_t value = Register(from.reg);
      std::memcpy(&out, &value, sizeof out);
    } else {
      const std::uint64_t value = Immediate(from, sizeof(T), std::is_floating_point_v<T>);
      std::memcpy(&out, &value, sizeof out);
    }
    return out;
  }
  template <class T>
  void Set(const Operand& to, T value) {
    if (to.kind == Operand::Kind::kNone) return;
    if (to.kind != Operand::Kind::kRegister || to.bytes != sizeof(T)) Fail("a result of another width");
    std::uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof value);
    SetRegister(to.reg, bits);
  }
  // Between registers of one width; compilers copy what was never set, too.
  void Copy(const Operand& to, const Operand& from);
  // The low part of a register that may be wider; numbers fill a wider register by their sign.
  std::uint64_t Low(const Operand& from, std::size_t bytes) const;
  template <class T>
  void SetWide(const Operand& to, T value) {
    if (to.kind != Operand::Kind::kRegister || to.bytes < sizeof(T)) Fail("a result of another width");
    std::uint64_t bits = 0;
    if constexpr (std::is_floating_point_v<T>) {
      if (to.bytes != sizeof(T)) Fail("a result of another width");
      std::memcpy(&bits, &value, sizeof value);
    } else {
      bits = static_cast<std::uint64_t>(static_cast<std::int64_t>(value));
      if (to.bytes < 8) bits &= (std::uint64_t{1} << (8 * to.bytes)) - 1;
    }
    SetRegister(to.reg, bits);
  }
  // `read`: the bits that are looked at.
  std::uint64_t Register(int reg, std::uint64_t read = ~std::uint64_t{0}) const;
  void SetRegister(int reg, std::uint64_t bits);
  std::uint64_t ReadSpecial(Special which) const;

  // `bytes` of the whole access, a vector's together. Returns which of them nobody set, as bits.
  unsigned Read(Space space, const Operand& at, std::size_t bytes, void* to);
  void Write(Space space, const Operand& at, std::size_t bytes, const void* from);

  // Which bits of a register come of what nobody set; a result is wholly tainted if an operand was, until told
  // otherwise.
  std::uint64_t TaintOf(const Operand& from) const;
  void SetTaint(const Operand& to, std::uint64_t bits);

  void Jump(std::size_t to) { thread_->next = to; }
  void Exit() { thread_->state = State::kDone; }
  void WaitForBlock() { thread_->state = State::kAtBarrier; }
  // Gets `given` of the thread `distance` away (by exclusive or) into `to`.
  void Exchange(std::uint32_t given, unsigned distance, int to, int predicate);

 private:
  enum class State : std::uint8_t { kRunning, kAtBarrier, kAtExchange, kDone };
  struct Thread {
    std::vector<std::uint64_t> value;
    std::vector<char> is_set;
    std::vector<std::uint64_t> taint;
    std::size_t next = 0;
    State state = State::kRunning;
    std::uint32_t given = 0;
    unsigned distance = 0;
    int to = -1, predicate = -1;
  };
  // Of a byte of shared memory: who touched it since the last barrier.
  struct Touch {
    int written_by = -1, read_by = -1;
    unsigned written = 0, read = 0;  // the round of barriers
    bool is_set = false;
  };
  static constexpr int kSeveral = -2;

  std::uint64_t Immediate(const Operand& from, std::size_t bytes, bool is_float) const;
  std::uint64_t Address(const Operand& at, std::size_t bytes) const;
  void CheckGlobal(std::uint64_t at, std::size_t bytes) const;
  unsigned CheckShared(std::uint64_t at, std::size_t bytes, bool write);
  void RunThread();
  bool ReleaseBarrier();
  bool ReleaseWarp(std::size_t first);

  const Entry& entry_;
  const std::vector<std::int64_t>& words_;
  const Ranges& memory_;
  std::vector<Thread> threads_;
  std::vector<char> shared_;
  std::vector<Touch> touches_;
  unsigned round_ = 0, x_ = 0, y_ = 0, blocks_ = 0, rows_ = 0;
  Thread* thread_ = nullptr;
  const Instruction* instruction_ = nullptr;
  mutable bool tainted_ = false;  // an operand was
};

}  // namespace framefuse::testing::ptx

#endif  // FRAMEFUSE_TESTS_KERNELS_PTX_MACHINE_H_
