#include "tests/kernels/ptx_machine.h"

#include <algorithm>
#include <bit>
#include <stdexcept>

#include "absl/strings/str_cat.h"

namespace framefuse::testing::ptx {
namespace {

constexpr unsigned kWarp = 32;
constexpr int kMostSteps = 1 << 26;  // of a thread between two waits

}  // namespace

Machine::Machine(const Entry& entry, const std::vector<std::int64_t>& words, unsigned threads, const Ranges& memory)
    : entry_(entry),
      words_(words),
      memory_(memory),
      threads_(threads),
      shared_(entry.shared_bytes),
      touches_(entry.shared_bytes) {
  if (threads % kWarp != 0 || threads > entry.most_threads) Fail("so many threads");
  if (words.size() * sizeof(std::int64_t) != entry.parameter_bytes) Fail("an argument block of another size");
}

void Machine::Fail(const std::string& why) const {
  std::string where = absl::StrCat("PTX, ", entry_.name, ": ");
  if (instruction_ != nullptr) {
    absl::StrAppend(&where, "line ", instruction_->line, ", `", instruction_->text, "`, thread ",
                    thread_ - threads_.data(), " of block ", x_, ", ", y_, ": ");
  }
  throw std::runtime_error(where + why);
}

std::uint64_t Machine::Immediate(const Operand& from, std::size_t bytes, bool is_float) const {
  using Kind = Operand::Kind;
  switch (from.kind) {
    case Kind::kInteger:
      if (is_float) Fail("an integer where a float is read");
      return from.value;
    case Kind::kSingle:
      if (bytes != 4) Fail("a number of another width");
      return from.value;
    case Kind::kDouble:
      if (bytes != 8) Fail("a number of another width");
      return from.value;
    case Kind::kAddress:
      if (is_float || (bytes != 8 && from.value >> 32 != 0) || bytes < 4) Fail("an address of another width");
      return from.value;
    case Kind::kSpecial:
      if (is_float || bytes != 4) Fail("a special register of another width");
      return ReadSpecial(static_cast<Special>(from.value));
    default:
      Fail("an operand that cannot be read");
  }
}

std::uint64_t Machine::Register(int reg, std::uint64_t read) const {
  const auto r = static_cast<std::size_t>(reg);
  if (thread_->is_set[r] == 0) Fail("a register is read that was never set");
  tainted_ = tainted_ || (thread_->taint[r] & read) != 0;
  return thread_->value[r];
}

void Machine::SetRegister(int reg, std::uint64_t bits) {
  const auto r = static_cast<std::size_t>(reg);
  thread_->value[r] = bits;
  thread_->is_set[r] = 1;
  thread_->taint[r] = tainted_ ? ~std::uint64_t{0} : 0;
}

std::uint64_t Machine::TaintOf(const Operand& from) const {
  return from.kind == Operand::Kind::kRegister ? thread_->taint[static_cast<std::size_t>(from.reg)] : 0;
}

void Machine::SetTaint(const Operand& to, std::uint64_t bits) {
  if (to.kind == Operand::Kind::kRegister) thread_->taint[static_cast<std::size_t>(to.reg)] = bits;
}

void Machine::Copy(const Operand& to, const Operand& from) {
  if (to.kind != Operand::Kind::kRegister || to.bytes != from.bytes) Fail("a register of another width");
  const auto a = static_cast<std::size_t>(to.reg), b = static_cast<std::size_t>(from.reg);
  thread_->value[a] = thread_->value[b];
  thread_->is_set[a] = thread_->is_set[b];
  thread_->taint[a] = thread_->taint[b];
}

std::uint64_t Machine::Low(const Operand& from, std::size_t bytes) const {
  if (from.kind != Operand::Kind::kRegister) return Immediate(from, bytes, false);
  if (from.bytes < bytes) Fail("a register of another width");
  const std::uint64_t mask = bytes < 8 ? (std::uint64_t{1} << (8 * bytes)) - 1 : ~std::uint64_t{0};
  return Register(from.reg, mask) & mask;
}

std::uint64_t Machine::ReadSpecial(Special which) const {
  const auto id = static_cast<std::uint64_t>(thread_ - threads_.data());
  switch (which) {
    case Special::kTidX:
      return id;
    case Special::kNTidX:
      return threads_.size();
    case Special::kCtaIdX:
      return x_;
    case Special::kCtaIdY:
      return y_;
    case Special::kNCtaIdX:
      return blocks_;
    case Special::kNCtaIdY:
      return rows_;
    default:
      return id % kWarp;
  }
}

std::uint64_t Machine::Address(const Operand& at, std::size_t bytes) const {
  if (at.kind != Operand::Kind::kMemory) Fail("no address");
  const std::uint64_t address = at.value + (at.reg >= 0 ? Register(at.reg) : 0);
  if (at.reg >= 0 && thread_->taint[static_cast<std::size_t>(at.reg)] != 0)
    Fail("an address that comes of what nobody set");
  if (at.reg >= 0 && at.bytes != 8 && at.bytes != 4) Fail("an address of another width");
  if (address % bytes != 0) Fail(absl::StrCat("address ", address, " is not a multiple of ", bytes));
  return at.bytes == 4 ? address & 0xffffffffu : address;
}

void Machine::CheckGlobal(std::uint64_t at, std::size_t bytes) const {
  if (at < 4096) Fail("a null pointer");
  for (const auto& [begin, end] : memory_) {
    if (at >= begin && at + bytes <= end) return;
  }
  if (!memory_.empty()) Fail("outside of the buffers");
}

unsigned Machine::CheckShared(std::uint64_t at, std::size_t bytes, bool write) {
  if (at > shared_.size() || shared_.size() - at < bytes) Fail("outside of shared memory");
  unsigned unset = 0;
  const int me = static_cast<int>(thread_ - threads_.data());
  for (std::uint64_t i = at; i < at + bytes; ++i) {
    Touch& touch = touches_[i];
    const bool now_written = touch.written_by >= 0 && touch.written == round_ && touch.written_by != me;
    const bool now_read = touch.read_by != -1 && touch.read == round_ && touch.read_by != me;
    if (now_written || (write && now_read)) Fail("a race: another thread used this memory since the last barrier");
    if (!touch.is_set) unset |= 1u << (i - at);
    if (write) {
      touch.written_by = me;
      touch.written = round_;
      touch.is_set = !tainted_;
    } else {
      touch.read_by = touch.read == round_ && touch.read_by != -1 && touch.read_by != me ? kSeveral : me;
      touch.read = round_;
    }
  }
  return unset;
}

unsigned Machine::Read(Space space, const Operand& at, std::size_t bytes, void* to) {
  const std::uint64_t address = Address(at, bytes);
  if (space == Space::kGlobal) {
    CheckGlobal(address, bytes);
    std::memcpy(to, reinterpret_cast<const void*>(address), bytes);
  } else if (space == Space::kShared) {
    const unsigned unset = CheckShared(address, bytes, false);
    std::memcpy(to, shared_.data() + address, bytes);
    return unset;
  } else {
    if (address > entry_.parameter_bytes || entry_.parameter_bytes - address < bytes) Fail("outside of the arguments");
    std::memcpy(to, reinterpret_cast<const char*>(words_.data()) + address, bytes);
  }
  return 0;
}

void Machine::Write(Space space, const Operand& at, std::size_t bytes, const void* from) {
  const std::uint64_t address = Address(at, bytes);
  if (space == Space::kGlobal) {
    if (tainted_) Fail("what comes of shared memory that nobody set is written");
    CheckGlobal(address, bytes);
    std::memcpy(reinterpret_cast<void*>(address), from, bytes);
  } else {
    if (space != Space::kShared) Fail("this memory is not written");
    CheckShared(address, bytes, true);
    std::memcpy(shared_.data() + address, from, bytes);
  }
}

void Machine::Exchange(std::uint32_t given, unsigned distance, int to, int predicate) {
  if (tainted_) Fail("what comes of shared memory that nobody set is given to others");
  thread_->state = State::kAtExchange;
  thread_->given = given;
  thread_->distance = distance;
  thread_->to = to;
  thread_->predicate = predicate;
}

void Machine::RunThread() {
  for (int steps = 0; thread_->state == State::kRunning; ++steps) {
    if (steps == kMostSteps) Fail("this does not end");
    if (thread_->next >= entry_.code.size()) Fail("the code ends without `ret`");
    instruction_ = &entry_.code[thread_->next++];
    tainted_ = false;
    if (instruction_->guard >= 0) {
      const bool holds = Register(instruction_->guard) != 0;
      if (tainted_) Fail("a decision that comes of what nobody set");
      if (holds != instruction_->guard_wants) continue;
    }
    instruction_->run(*this, *instruction_);
  }
}

// All of the block have to come, and to the same barrier.
bool Machine::ReleaseBarrier() {
  for (const Thread& thread : threads_) {
    if (thread.state != State::kAtBarrier || thread.next != threads_[0].next) return false;
  }
  for (Thread& thread : threads_) thread.state = State::kRunning;
  ++round_;
  return true;
}

bool Machine::ReleaseWarp(std::size_t first) {
  for (std::size_t t = first; t < first + kWarp; ++t) {
    if (threads_[t].state != State::kAtExchange || threads_[t].next != threads_[first].next) return false;
  }
  for (std::size_t t = first; t < first + kWarp; ++t) {
    thread_ = &threads_[t];
    tainted_ = false;
    SetRegister(thread_->to, threads_[first + ((t - first) ^ thread_->distance)].given);
    if (thread_->predicate >= 0) SetRegister(thread_->predicate, 1);
    thread_->state = State::kRunning;
  }
  return true;
}

void Machine::RunBlock(unsigned x, unsigned y, unsigned blocks, unsigned rows) {
  x_ = x;
  y_ = y;
  blocks_ = blocks;
  rows_ = rows;
  std::fill(touches_.begin(), touches_.end(), Touch{});
  for (Thread& thread : threads_) {
    thread.value.assign(entry_.register_bytes.size(), 0);
    thread.is_set.assign(entry_.register_bytes.size(), 0);
    thread.taint.assign(entry_.register_bytes.size(), 0);
    thread.next = 0;
    thread.state = State::kRunning;
  }
  for (;;) {
    bool done = true;
    for (Thread& thread : threads_) {
      thread_ = &thread;
      RunThread();
      done = done && thread.state == State::kDone;
    }
    if (done) return;
    bool released = ReleaseBarrier();
    for (std::size_t first = 0; first < threads_.size(); first += kWarp) released = ReleaseWarp(first) || released;
    if (!released) Fail("threads wait for others that will not come");
  }
}

absl::Status Run(const Entry& entry, const std::vector<std::int64_t>& words, unsigned blocks, unsigned rows,
                 unsigned threads, const Ranges& memory) {
  try {
    Machine machine(entry, words, threads, memory);
    for (unsigned y = 0; y < rows; ++y) {
      for (unsigned x = 0; x < blocks; ++x) machine.RunBlock(x, y, blocks, rows);
    }
    return absl::OkStatus();
  } catch (const std::exception& error) {
    return absl::InternalError(error.what());
  }
}

}  // namespace framefuse::testing::ptx
