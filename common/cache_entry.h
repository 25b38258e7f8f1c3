// What the disk cache keeps, as bytes: packed with a checksum over all of it, and taken apart again only if that is
// right.
#ifndef FRAMEFUSE_COMMON_CACHE_ENTRY_H_
#define FRAMEFUSE_COMMON_CACHE_ENTRY_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace framefuse {

struct CacheKey {
  std::string kind;         // what is kept, a word of small letters: "cubin"
  std::string environment;  // who makes it and with what: versions, architecture, options
  std::string content;      // what it is made of
};

struct CacheEntry {
  std::string kind, environment, content_hash, value;
  // kind-(hash of kind and content)-(hash of the environment): those made by others lie side by side.
  std::string Name() const;
};

std::string ContentHash(const CacheKey& key);
std::string EntryName(const CacheKey& key);
// What the names of all entries made of the same begin with.
std::string EntryPrefix(const CacheKey& key);
bool IsEntryName(std::string_view name);

std::string PackEntry(const CacheKey& key, std::string_view value);
absl::StatusOr<CacheEntry> UnpackEntry(std::string_view bytes);

// --- pieces of bytes with their lengths
void AppendPiece(std::string_view piece, std::string* bytes);
// Takes one off the front; false: there is none.
bool TakePiece(std::string_view* bytes, std::string_view* piece);
// `rest` behind a magic line and its checksum, and back; an error says what is wrong with the bytes.
std::string Sealed(std::string_view magic, std::string_view rest);
absl::StatusOr<std::string_view> Unsealed(std::string_view magic, std::string_view bytes);

}  // namespace framefuse

#endif  // FRAMEFUSE_COMMON_CACHE_ENTRY_H_
