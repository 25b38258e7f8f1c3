#include "common/build_id.h"

#include <dlfcn.h>
#include <link.h>
#include <sys/stat.h>

#include <cstddef>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "common/sha256.h"

namespace framefuse {
namespace {

struct Search {
  ElfW(Addr) address = 0;
  std::string id;
};

// The id in a segment of notes: each has the lengths of name and text, a type, and both, filled up to four bytes.
std::string IdIn(const char* notes, std::size_t bytes) {
  const auto filled = [](std::size_t n) { return (n + 3) / 4 * 4; };
  while (bytes >= sizeof(ElfW(Nhdr))) {
    const auto* note = reinterpret_cast<const ElfW(Nhdr)*>(notes);
    const std::size_t name = sizeof *note, text = name + filled(note->n_namesz), end = text + filled(note->n_descsz);
    if (end > bytes) break;
    if (note->n_type == NT_GNU_BUILD_ID &&
        std::string_view(notes + name, note->n_namesz) == std::string_view("GNU", 4)) {
      return HexOf({notes + text, note->n_descsz});
    }
    notes += end, bytes -= end;
  }
  return "";
}

int Look(dl_phdr_info* info, std::size_t, void* data) {
  auto* search = static_cast<Search*>(data);
  bool holds = false;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& p = info->dlpi_phdr[i];
    const ElfW(Addr) begin = info->dlpi_addr + p.p_vaddr;
    if (p.p_type == PT_LOAD && search->address >= begin && search->address - begin < p.p_memsz) holds = true;
  }
  for (int i = 0; holds && search->id.empty() && i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& p = info->dlpi_phdr[i];
    if (p.p_type == PT_NOTE) search->id = IdIn(reinterpret_cast<const char*>(info->dlpi_addr + p.p_vaddr), p.p_memsz);
  }
  return holds ? 1 : 0;
}

}  // namespace

std::string BuildIdOf(const void* address) {
  Search search{reinterpret_cast<ElfW(Addr)>(address), ""};
  dl_iterate_phdr(Look, &search);
  if (!search.id.empty()) return search.id;
  Dl_info info{};
  struct stat s {};
  if (dladdr(address, &info) == 0 || info.dli_fname == nullptr || stat(info.dli_fname, &s) != 0) return "unknown";
  return absl::StrCat(s.st_size, " bytes of ", s.st_mtime);
}

const std::string& OwnBuildId() {
  static const auto* const id = new std::string(BuildIdOf(reinterpret_cast<const void*>(&OwnBuildId)));
  return *id;
}

}  // namespace framefuse
