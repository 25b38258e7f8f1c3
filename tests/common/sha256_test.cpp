// Sha256 against the examples of FIPS 180-4 and NIST's long one, whatever the pieces.
#include "common/sha256.h"

#include <gtest/gtest.h>

namespace framefuse {
namespace {

std::string HashOf(std::string_view text) {
  const std::string hash = HexOf(Sha256().Add(text).Finish());
  EXPECT_EQ(HexOf(Sha256(/*by_instructions=*/false).Add(text).Finish()), hash);
  return hash;
}

TEST(Sha256Test, IsTheStandards) {
  EXPECT_EQ(HashOf(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(HashOf("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(HashOf("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(HashOf(std::string(1000000, 'a')), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256Test, PiecesDoNotMatter) {
  const std::string text(200, 'x');
  for (std::size_t i = 0; i <= text.size(); ++i) {
    EXPECT_EQ(HexOf(Sha256().Add(text.substr(0, i)).Add(text.substr(i)).Finish()), HashOf(text)) << i;
  }
}

TEST(Sha256Test, LengthsOfPiecesDo) {
  EXPECT_NE(Sha256().AddPiece("ab").AddPiece("c").Finish(), Sha256().AddPiece("a").AddPiece("bc").Finish());
}

}  // namespace
}  // namespace framefuse
