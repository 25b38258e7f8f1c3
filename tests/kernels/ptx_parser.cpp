// See ptx_program.h: from text to instructions. Registers and labels are looked up by the scopes around them.
#include <cctype>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/kernels/ptx_program.h"

namespace framefuse::testing::ptx {
namespace {

using Kind = Operand::Kind;

std::string Stripped(std::string_view text) {
  std::string out(text);
  absl::StripAsciiWhitespace(&out);
  return out;
}

std::size_t BytesOf(std::string_view type) {
  if (type == ".pred") return 1;
  const std::string digits(type.substr(2));
  return static_cast<std::size_t>(std::atoi(digits.c_str()) / 8);
}

// Splits at commas that are in no bracket.
std::vector<std::string> Operands(std::string_view text) {
  std::vector<std::string> out;
  int depth = 0;
  std::string one;
  for (const char c : text) {
    depth += c == '{' || c == '[' || c == '(' ? 1 : c == '}' || c == ']' || c == ')' ? -1 : 0;
    if (c == ',' && depth == 0) {
      out.push_back(Stripped(one));
      one.clear();
    } else {
      one += c;
    }
  }
  if (!Stripped(one).empty()) out.push_back(Stripped(one));
  return out;
}

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  std::shared_ptr<const Program> Run() {
    scopes_.push_back({-1, {}, {}, {}});
    scope_ = 0;
    while (Skip(), at_ < text_.size()) Statement();
    if (scope_ != 0) Fail("a scope is open at the end");
    return std::move(program_);
  }

 private:
  struct Scope {
    int parent;
    std::map<std::string, int> registers;
    std::map<std::string, std::uint64_t> addresses;
    std::map<std::string, std::size_t> labels;
  };
  struct Jump {
    std::size_t from;
    int scope;
    std::string label;
  };

  [[noreturn]] void Fail(const std::string& why) const {
    throw std::runtime_error(absl::StrCat("PTX, line ", line_, ": ", why));
  }

  void Skip() {
    while (at_ < text_.size()) {
      if (text_.substr(at_).starts_with("//")) {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else if (std::isspace(static_cast<unsigned char>(text_[at_])) != 0) {
        line_ += text_[at_++] == '\n' ? 1 : 0;
      } else {
        return;
      }
    }
  }

  // Up to one of `ends`, which is not taken; comments are left out.
  std::string Until(std::string_view ends) {
    std::string out;
    while (at_ < text_.size() && ends.find(text_[at_]) == ends.npos) {
      if (text_[at_] == '"') Fail("texts are not known");
      if (text_.substr(at_).starts_with("//")) {
        at_ = std::min(text_.find('\n', at_), text_.size());
        continue;
      }
      line_ += text_[at_] == '\n' ? 1 : 0;
      out += text_[at_++];
    }
    if (at_ == text_.size()) Fail("a statement has no end");
    return Stripped(out);
  }

  void Statement() {
    const char c = text_[at_];
    if (c == '{') {
      ++at_;
      scopes_.push_back({scope_, {}, {}, {}});
      scope_ = static_cast<int>(scopes_.size()) - 1;
    } else if (c == '}') {
      ++at_;
      scope_ = scopes_[static_cast<std::size_t>(scope_)].parent;
      if (scope_ < 0) Fail("a scope ends that never began");
      if (scope_ == 0) EndEntry();
    } else if (c == '.') {
      Directive();
    } else {
      Code();
    }
  }

  void Directive() {
    const std::size_t begin = at_;
    std::size_t end = begin;
    while (end < text_.size() && std::isspace(static_cast<unsigned char>(text_[end])) == 0) ++end;
    const std::string name(text_.substr(begin, end - begin));
    if (name == ".visible" || name == ".extern" || name == ".weak") {
      at_ = end;
      Skip();
      if (text_.substr(at_).starts_with(".entry")) return BeginEntry();
      if (!text_.substr(at_).starts_with(".func")) return;
      Until(";");  // a declaration
      ++at_;
    } else if (name == ".version" || name == ".target" || name == ".address_size") {
      Until("\n");
    } else if (name == ".pragma") {
      at_ = text_.find(';', end) + 1;  // advice on loops
    } else if (name == ".maxntid" || name == ".reqntid") {
      at_ = end;
      entry().most_threads = static_cast<unsigned>(std::atoi(Until(",\n").c_str()));
      Until("\n{");
    } else if (name == ".minnctapersm" || name == ".maxnreg") {
      Until("\n{");
    } else if (name == ".reg") {
      at_ = end;
      Registers(Until(";"));
      ++at_;
    } else if (name == ".shared" || name == ".global" || name == ".const" || name == ".param") {
      at_ = end;
      Variable(name, Until(";"));
      ++at_;
    } else {
      Fail(absl::StrCat("the emulation does not have ", name));
    }
  }

  Entry& entry() {
    if (program_->entries.empty()) Fail("this belongs into a kernel");
    return program_->entries.back();
  }

  void BeginEntry() {
    at_ += std::strlen(".entry");
    Entry made;
    made.name = Until("(");
    ++at_;
    const std::string parameter = Until(")");
    ++at_;
    program_->entries.push_back(std::move(made));
    jumps_.clear();
    if (!parameter.empty()) entry().parameter_bytes = Declare(parameter).bytes;
    parameter_ = parameter.empty() ? "" : Declare(parameter).name;
  }

  struct Declared {
    std::string name;
    std::size_t bytes = 0, align = 1;
    std::string initial;
  };
  // "[.param] .align 8 .b8 name[24] = {...}"
  Declared Declare(const std::string& text) const {
    Declared out;
    const std::vector<std::string> sides = absl::StrSplit(text, absl::MaxSplits('=', 1));
    if (sides.size() == 2) out.initial = sides[1];
    std::size_t element = 0, count = 1;
    const std::vector<std::string> words = absl::StrSplit(sides[0], absl::ByAnyChar(" \t\n"), absl::SkipEmpty());
    for (std::size_t w = 0; w < words.size(); ++w) {
      if (words[w] == ".param") continue;
      if (words[w] == ".align") {
        out.align = static_cast<std::size_t>(std::atoi(words.at(++w).c_str()));
      } else if (words[w][0] == '.') {
        element = BytesOf(words[w]);
      } else {
        const std::size_t bracket = words[w].find('[');
        out.name = words[w].substr(0, bracket);
        if (bracket != std::string::npos) count = static_cast<std::size_t>(std::atoi(words[w].c_str() + bracket + 1));
      }
    }
    out.align = std::max(out.align, element);
    out.bytes = element * count;
    if (out.name.empty() || out.bytes == 0) Fail("what is declared here? " + text);
    return out;
  }

  void Variable(const std::string& space, const std::string& text) {
    const Declared made = Declare(text);
    std::uint64_t address = 0;
    if (space == ".shared") {
      std::size_t& bytes = scope_ == 0 ? module_shared_ : entry().shared_bytes;
      if (scope_ == 0 && !program_->entries.empty()) Fail("shared memory of the module stands before the kernels");
      if (scope_ != 0) bytes = std::max(bytes, module_shared_);
      bytes = (bytes + made.align - 1) / made.align * made.align;
      address = bytes;
      bytes += made.bytes;
    } else if (space != ".param") {  // of a call; what is called ends the program
      auto memory = std::make_unique<std::vector<char>>(made.bytes);
      if (reinterpret_cast<std::uintptr_t>(memory->data()) % made.align != 0) Fail("alignment");
      address = reinterpret_cast<std::uintptr_t>(memory->data());
      const std::string list = Stripped(made.initial);
      const std::vector<std::string> values = Operands(list.starts_with("{") ? list.substr(1, list.size() - 2) : list);
      const std::size_t size = values.empty() ? 1 : made.bytes / values.size();
      for (std::size_t i = 0; i < values.size(); ++i) {
        const std::uint64_t value = Value(values[i]).value;
        std::memcpy(memory->data() + i * size, &value, size);
      }
      program_->constants.push_back(std::move(memory));
    }
    Here().addresses[made.name] = address;
  }

  Scope& Here() { return scopes_[static_cast<std::size_t>(scope_)]; }

  // ".b32 %r<12>" or ".f32 a, b"
  void Registers(const std::string& text) {
    const std::size_t space = text.find_first_of(" \t");
    const auto bytes = static_cast<std::uint8_t>(BytesOf(text.substr(0, space)));
    if (bytes == 0 || bytes > 8) Fail("registers of this type: " + text);
    for (const std::string& name : Operands(text.substr(space))) {
      const std::size_t many = name.find('<');
      const int count = many == std::string::npos ? 1 : std::atoi(name.c_str() + many + 1);
      for (int i = 0; i < count; ++i) {
        const std::string one = many == std::string::npos ? name : absl::StrCat(name.substr(0, many), i);
        if (!Here().registers.emplace(one, static_cast<int>(entry().register_bytes.size())).second)
          Fail(one + " is declared twice");
        entry().register_bytes.push_back(bytes);
      }
    }
  }

  template <class Map>
  const typename Map::mapped_type* Look(Map Scope::*names, const std::string& name, int scope) const {
    for (; scope >= 0; scope = scopes_[static_cast<std::size_t>(scope)].parent) {
      const Map& map = scopes_[static_cast<std::size_t>(scope)].*names;
      if (auto it = map.find(name); it != map.end()) return &it->second;
    }
    return nullptr;
  }

  void Code() {
    if (scope_ == 0) Fail("code outside of a kernel");
    const int line = line_;
    std::size_t end = at_;
    while (end < text_.size() &&
           (std::isalnum(static_cast<unsigned char>(text_[end])) != 0 || std::strchr("_$%.", text_[end]) != nullptr))
      ++end;
    if (text_.substr(end, 1) == ":" && text_.substr(end, 2) != "::") {
      const std::string label(text_.substr(at_, end - at_));
      at_ = end + 1;
      if (!Here().labels.emplace(label, entry().code.size()).second) Fail(label + " is a label twice");
      return;
    }
    const std::string text = Until(";");
    ++at_;
    Decode(text, line);
  }

  void Decode(const std::string& text, int line) {
    Instruction made;
    made.text = text;
    made.line = line;
    std::string rest = text;
    if (rest[0] == '@') {
      made.guard_wants = rest[1] != '!';
      const std::size_t begin = made.guard_wants ? 1 : 2, end = rest.find_first_of(" \t");
      made.guard = Register(rest.substr(begin, end - begin)).reg;
      rest = Stripped(rest.substr(end));
    }
    const std::size_t end = std::min(rest.find_first_of(" \t\n"), rest.size());
    made.name = rest.substr(0, end);
    made.run = FindHandler(made.name);
    if (made.run == nullptr) Fail(absl::StrCat("the emulation does not have ", made.name));
    const std::vector<std::string> operands = Operands(rest.substr(end));
    if (made.name.starts_with("bra")) {
      if (operands.size() != 1) Fail(text);
      jumps_.push_back({entry().code.size(), scope_, operands[0]});
      made.operands.emplace_back();
    } else if (!made.name.starts_with("call")) {
      for (const std::string& operand : operands) made.operands.push_back(Value(operand));
    }
    entry().code.push_back(std::move(made));
  }

  Operand Register(const std::string& name) const {
    const int* reg = Look(&Scope::registers, name, scope_);
    if (reg == nullptr) Fail(name + " is not declared");
    Operand out;
    out.kind = Kind::kRegister;
    out.reg = *reg;
    out.bytes = program_->entries.back().register_bytes[static_cast<std::size_t>(*reg)];
    return out;
  }

  Operand Value(const std::string& text) const {
    Operand out;
    if (text == "_") return out;
    if (text[0] == '{') {
      out.kind = Kind::kLanes;
      for (const std::string& lane : Operands(text.substr(1, text.size() - 2))) out.lanes.push_back(Value(lane));
      return out;
    }
    if (text[0] == '[') return Memory(Stripped(text.substr(1, text.size() - 2)));
    if (const std::size_t bar = text.find('|'); bar != std::string::npos) {
      out = Value(Stripped(text.substr(0, bar)));
      out.predicate = Register(Stripped(text.substr(bar + 1))).reg;
      return out;
    }
    if (std::isdigit(static_cast<unsigned char>(text[0])) != 0 || text[0] == '-') return Number(text);
    if (SpecialRegister(text, &out)) return out;
    if (text == parameter_) {
      out.kind = Kind::kAddress;  // parameters begin at 0
      return out;
    }
    if (const std::uint64_t* address = Look(&Scope::addresses, text, scope_)) {
      out.kind = Kind::kAddress;
      out.value = *address;
      return out;
    }
    return Register(text);
  }

  static bool SpecialRegister(const std::string& text, Operand* out) {
    constexpr const char* kNames[] = {"%tid.x", "%ntid.x", "%ctaid.x", "%ctaid.y", "%nctaid.x", "%nctaid.y", "%laneid"};
    for (std::size_t i = 0; i < std::size(kNames); ++i) {
      if (text != kNames[i]) continue;
      out->kind = Kind::kSpecial;
      out->value = i;
      return true;
    }
    return false;
  }

  Operand Memory(const std::string& text) const {
    Operand out;
    const std::size_t plus = text.find_first_of("+-", 1);
    const Operand base = Value(Stripped(text.substr(0, plus)));
    const bool has_register = base.kind == Kind::kRegister;
    if (!has_register && base.kind != Kind::kAddress) Fail("an address: " + text);
    out.kind = Kind::kMemory;
    out.reg = has_register ? base.reg : -1;
    out.bytes = base.bytes;
    out.value = has_register ? 0 : base.value;
    if (plus == std::string::npos) return out;
    const std::string offset = Stripped(text.substr(plus + 1));
    const std::uint64_t by = Number(text[plus] == '-' ? "-" + offset : offset).value;
    out.value += by;
    return out;
  }

  Operand Number(const std::string& text) const {
    Operand out;
    char* end = nullptr;
    if (text.starts_with("0f") || text.starts_with("0F")) {
      out.kind = Kind::kSingle;
      out.value = std::strtoull(text.c_str() + 2, &end, 16);
    } else if (text.starts_with("0d") || text.starts_with("0D")) {
      out.kind = Kind::kDouble;
      out.value = std::strtoull(text.c_str() + 2, &end, 16);
    } else {
      out.kind = Kind::kInteger;
      out.value = text[0] == '-' ? static_cast<std::uint64_t>(std::strtoll(text.c_str(), &end, 0))
                                 : std::strtoull(text.c_str(), &end, 0);
      if (*end == 'U') ++end;
    }
    if (*end != '\0') Fail("a number: " + text);
    return out;
  }

  void EndEntry() {
    for (const Jump& jump : jumps_) {
      const std::size_t* to = Look(&Scope::labels, jump.label, jump.scope);
      if (to == nullptr) Fail(jump.label + " is no label");
      entry().code[jump.from].operands[0].value = *to;
    }
    jumps_.clear();
    entry().shared_bytes = std::max(entry().shared_bytes, module_shared_);
  }

  std::string_view text_;
  std::size_t at_ = 0, module_shared_ = 0;
  int line_ = 1, scope_ = 0;
  std::string parameter_;
  std::vector<Scope> scopes_;
  std::vector<Jump> jumps_;
  std::shared_ptr<Program> program_ = std::make_shared<Program>();
};

}  // namespace

const Entry* Program::Find(std::string_view name) const {
  for (const Entry& entry : entries) {
    if (entry.name == name) return &entry;
  }
  return nullptr;
}

absl::StatusOr<std::shared_ptr<const Program>> Parse(std::string_view text) {
  try {
    return Parser(text).Run();
  } catch (const std::exception& error) {
    return absl::InternalError(error.what());
  }
}

}  // namespace framefuse::testing::ptx
