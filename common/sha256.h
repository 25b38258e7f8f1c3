// Sha256: the hash of FIPS 180-4, which names what the disk cache keeps and finds what is damaged.
#ifndef FRAMEFUSE_COMMON_SHA256_H_
#define FRAMEFUSE_COMMON_SHA256_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace framefuse {

class Sha256 {
 public:
  static constexpr std::size_t kBytes = 32;

  // By the processor's instructions, where it has them and they are wanted.
  explicit Sha256(bool by_instructions = true) : by_instructions_(by_instructions) {}
  Sha256& Add(std::string_view bytes);
  // With its length before it: two pieces never hash as two others do that are the same when put together.
  Sha256& AddPiece(std::string_view piece);
  std::string Finish();  // 32 bytes; once, at the end

 private:
  void Block(const unsigned char* bytes);

  std::array<std::uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                         0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<unsigned char, 64> rest_{};  // the first total_ % 64 bytes of a block
  std::uint64_t total_ = 0;
  bool by_instructions_;
};

std::string HexOf(std::string_view bytes);

}  // namespace framefuse

#endif  // FRAMEFUSE_COMMON_SHA256_H_
