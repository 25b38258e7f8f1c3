// Programs begin with the snippets of prelude.cu that they need.
#include <algorithm>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "backends/emit/cuda/print_cuda.h"
#include "common/check.h"
#include "embedded/prelude_cu.h"

namespace framefuse::emit {
namespace {

// See prelude.cu. All views are into its text.
struct Snippet {
  absl::string_view text;
  std::vector<absl::string_view> names;  // empty: always
  absl::string_view with;
  bool machine = false;
};

// `line`: what stands behind the `//=` of a snippet.
Snippet Begin(absl::string_view line) {
  Snippet snippet;
  const std::vector<absl::string_view> parts = absl::StrSplit(line, " | ");
  if (parts[0] != "*") snippet.names = absl::StrSplit(parts[0], ' ');
  for (std::size_t i = 1; i < parts.size(); ++i) {
    absl::string_view part = parts[i];
    if (absl::ConsumePrefix(&part, "with ")) {
      snippet.with = part;
    } else {
      FF_CHECK(part == "machine") << "prelude.cu: " << part;
      snippet.machine = true;
    }
  }
  return snippet;
}

std::vector<Snippet> Split(absl::string_view text) {
  constexpr absl::string_view kMark = "\n//= ";
  std::vector<Snippet> snippets;
  for (std::size_t at = text.find(kMark); at != text.npos;) {
    at += kMark.size();
    const std::size_t begin = text.find('\n', at) + 1, next = text.find(kMark, begin - 1);
    snippets.push_back(Begin(text.substr(at, begin - 1 - at)));
    snippets.back().text = text.substr(begin, next == text.npos ? next : next + 1 - begin);
    at = next;
  }
  return snippets;
}

const std::vector<Snippet>& Snippets() {
  static const auto* snippets = new std::vector<Snippet>(Split({kPreludeCu.data(), kPreludeCu.size()}));
  return *snippets;
}

bool HasWord(std::string_view text, std::string_view word) {
  const auto is_name = [](char c) { return c == '_' || absl::ascii_isalnum(static_cast<unsigned char>(c)); };
  for (std::size_t at = text.find(word); at != text.npos; at = text.find(word, at + 1)) {
    const std::size_t end = at + word.size();
    if ((at == 0 || !is_name(text[at - 1])) && (end == text.size() || !is_name(text[end]))) return true;
  }
  return false;
}

bool Needs(std::string_view text, const Snippet& snippet) {
  const auto has = [&](absl::string_view word) { return HasWord(text, {word.data(), word.size()}); };
  if (!snippet.with.empty() && !has(snippet.with)) return false;
  return snippet.names.empty() || std::any_of(snippet.names.begin(), snippet.names.end(), has);
}

}  // namespace

std::string CudaProgram(std::string_view kernels, std::string_view machine) {
  std::string program(machine);
  program += kernels;
  const std::vector<Snippet>& snippets = Snippets();
  const Snippet* first_of_machine = nullptr;
  std::vector<const Snippet*> taken;
  for (auto snippet = snippets.rbegin(); snippet != snippets.rend(); ++snippet) {
    if (snippet->machine) first_of_machine = &*snippet;
    if ((snippet->machine && !machine.empty()) || !Needs(program, *snippet)) continue;
    taken.push_back(&*snippet);
    program.append(snippet->text.data(), snippet->text.size());
  }
  program.clear();
  bool before = true;  // the machine's own snippets
  for (auto snippet = taken.rbegin(); snippet != taken.rend(); ++snippet) {
    if (before && *snippet > first_of_machine) {
      program += machine;
      before = false;
    }
    program.append((*snippet)->text.data(), (*snippet)->text.size());
  }
  if (before) program += machine;
  return program += kernels;
}

}  // namespace framefuse::emit
