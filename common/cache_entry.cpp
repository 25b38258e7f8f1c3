#include "common/cache_entry.h"

#include <algorithm>
#include <cstring>

#include "absl/status/status.h"
#include "common/sha256.h"
#include "common/status.h"

namespace framefuse {
namespace {

constexpr std::string_view kMagic = "framefuse cache entry 1\n", kSuffix = ".ffcache";
constexpr std::size_t kContentDigits = 64, kEnvironmentDigits = 16;

std::string Prefix(std::string_view kind, std::string_view content_hash) {
  return std::string(kind) + "-" + HexOf(content_hash) + "-";
}

std::string Name(std::string_view kind, std::string_view content_hash, std::string_view environment) {
  const std::string hash = HexOf(Sha256().Add(environment).Finish());
  return Prefix(kind, content_hash) + hash.substr(0, kEnvironmentDigits) + std::string(kSuffix);
}

bool AreDigits(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

}  // namespace

std::string ContentHash(const CacheKey& key) { return Sha256().AddPiece(key.kind).AddPiece(key.content).Finish(); }
std::string EntryPrefix(const CacheKey& key) { return Prefix(key.kind, ContentHash(key)); }
std::string EntryName(const CacheKey& key) { return Name(key.kind, ContentHash(key), key.environment); }
std::string CacheEntry::Name() const { return framefuse::Name(kind, content_hash, environment); }

bool IsEntryName(std::string_view name) {
  const std::size_t kind = name.find('-');
  if (kind == 0 || kind == std::string_view::npos) return false;
  const auto is_small = [](char c) { return c >= 'a' && c <= 'z'; };
  if (!std::all_of(name.begin(), name.begin() + static_cast<std::ptrdiff_t>(kind), is_small)) return false;
  name.remove_prefix(kind + 1);
  if (name.size() != kContentDigits + 1 + kEnvironmentDigits + kSuffix.size()) return false;
  return AreDigits(name.substr(0, kContentDigits)) && name[kContentDigits] == '-' &&
         AreDigits(name.substr(kContentDigits + 1, kEnvironmentDigits)) &&
         name.substr(name.size() - kSuffix.size()) == kSuffix;
}

void AppendPiece(std::string_view piece, std::string* bytes) {
  const std::uint64_t size = piece.size();
  bytes->append(reinterpret_cast<const char*>(&size), sizeof size).append(piece);
}

bool TakePiece(std::string_view* bytes, std::string_view* piece) {
  std::uint64_t size = 0;
  if (bytes->size() < sizeof size) return false;
  std::memcpy(&size, bytes->data(), sizeof size);
  if (size > bytes->size() - sizeof size) return false;
  *piece = bytes->substr(sizeof size, size);
  bytes->remove_prefix(sizeof size + size);
  return true;
}

std::string Sealed(std::string_view magic, std::string_view rest) {
  return std::string(magic).append(Sha256().Add(rest).Finish()).append(rest);
}

absl::StatusOr<std::string_view> Unsealed(std::string_view magic, std::string_view bytes) {
  if (bytes.size() < magic.size() + Sha256::kBytes || bytes.substr(0, magic.size()) != magic) {
    return absl::DataLossError("it is cut off, or of another format");
  }
  const std::string_view rest = bytes.substr(magic.size() + Sha256::kBytes);
  if (Sha256().Add(rest).Finish() != bytes.substr(magic.size(), Sha256::kBytes)) {
    return absl::DataLossError("its checksum is wrong");
  }
  return rest;
}

std::string PackEntry(const CacheKey& key, std::string_view value) {
  std::string rest;
  AppendPiece(key.kind, &rest);
  AppendPiece(key.environment, &rest);
  AppendPiece(ContentHash(key), &rest);
  AppendPiece(value, &rest);
  return Sealed(kMagic, rest);
}

absl::StatusOr<CacheEntry> UnpackEntry(std::string_view bytes) {
  FF_ASSIGN_OR_RETURN(std::string_view rest, Unsealed(kMagic, bytes));
  std::string_view kind, environment, hash, value;
  const bool whole = TakePiece(&rest, &kind) && TakePiece(&rest, &environment) && TakePiece(&rest, &hash) &&
                     TakePiece(&rest, &value) && rest.empty();
  if (!whole) return absl::DataLossError("its parts do not fit");
  return CacheEntry{std::string(kind), std::string(environment), std::string(hash), std::string(value)};
}

}  // namespace framefuse
