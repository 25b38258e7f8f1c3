#include "guards/source.h"

#include "absl/hash/hash.h"
#include "guards/changed_places.h"
#include "guards/immutable.h"
#include "guards/leaf/number_list.h"
#include "guards/text.h"

namespace framefuse {
namespace {

std::string Dotted(const std::string& base, BorrowedRef name) { return base + "." + PlainText(name); }

std::string Indexed(const std::string& base, std::int32_t index) { return base + "[" + std::to_string(index) + "]"; }

std::string SlotText(std::int32_t slot, const std::vector<std::string>& local_names) {
  const auto i = static_cast<std::size_t>(slot);
  // Beyond the named slots lies the value stack.
  if (i < local_names.size()) return "L['" + local_names[i] + "']";
  return Indexed("stack", slot - static_cast<std::int32_t>(local_names.size()));
}

}  // namespace

std::size_t SourceTable::Hash::operator()(const Source& s) const {
  return static_cast<std::uint32_t>(
      absl::HashOf(static_cast<int>(s.kind), s.base, s.index, s.key ? HashImmutable(s.key) : 0));
}

bool SourceTable::Equal::operator()(const Indexed& indexed, const Source& b) const {
  const Source& a = (*sources)[static_cast<std::size_t>(indexed.id)];
  if (a.kind != b.kind || a.base != b.base || a.index != b.index) return false;
  if (!a.key || !b.key) return !a.key && !b.key;
  // A constant is that very object; other keys are the same if they find the same entry.
  return a.kind == SourceKind::kConstant ? a.key.get() == b.key.get() : SameImmutable(a.key, b.key);
}

SourceTable::SourceTable() : sources_(1), index_(0, Hash(), Equal{&sources_}) {
  constexpr std::size_t kExpected = 256;  // of a small model
  sources_.reserve(kExpected);
  index_.reserve(kExpected);
}

SourceId SourceTable::Intern(SourceKind kind, SourceId base, std::int32_t index, BorrowedRef key) {
  Source source{kind, base, index, Ref::Create(key.get())};
  const std::size_t hash = Hash()(source);
  if (const auto it = index_.find(source, hash); it != index_.end()) return it->id;
  const SourceId id = size();
  sources_.push_back(std::move(source));
  index_.insert(Indexed{static_cast<std::uint32_t>(hash), id});
  return id;
}

std::string SourceTable::Print(SourceId id, const std::vector<std::string>& local_names) const {
  return PrintSource(sources_, id, local_names);
}

namespace {
// What the frame, the thread or the process has one of.
std::string RootText(SourceKind kind) {
  if (kind == SourceKind::kFunction) return "function";
  if (kind == SourceKind::kGlobals) return "G";
  if (kind == SourceKind::kBuiltins) return "B";
  return kind == SourceKind::kHandledException ? "sys.exception()" : "abc.get_cache_token()";
}

// Of the kinds that read a field of one name.
const char* FieldText(SourceKind kind) {
  if (kind == SourceKind::kMethodSelf) return ".__self__";
  if (kind == SourceKind::kMethodFunction) return ".__func__";
  if (kind == SourceKind::kTensorGrad) return ".grad";
  return kind == SourceKind::kMaxlen ? ".maxlen" : ".__dict__";
}

std::string CalledText(const std::string& base, SourceKind kind) {
  return base + (kind == SourceKind::kWeakrefTarget ? "()" : ".get()");
}

std::string TensorText(const std::string& base, std::int32_t index) {
  const std::string type = index == kOfNumbers ? "" : ", type " + std::to_string(index - IndexOfType(0));
  return "torch.tensor(" + base + type + ")";
}

std::string AppliedText(SourceKind kind, const std::string& base) {
  const char* function = kind == SourceKind::kType     ? "type"
                         : kind == SourceKind::kViewed ? "viewed"
                                                       : "torch.from_numpy";
  return function + ("(" + base + ")");
}
}  // namespace

std::string PrintSource(absl::Span<const Source> sources, SourceId id, const std::vector<std::string>& local_names) {
  const Source& s = sources[static_cast<std::size_t>(id)];
  const std::string base = s.base != kNoSource ? PrintSource(sources, s.base, local_names) : "";
  switch (s.kind) {
    case SourceKind::kNone:
      return "<fresh>";
    case SourceKind::kLocal:
      return SlotText(s.index, local_names);
    case SourceKind::kFunction:
    case SourceKind::kGlobals:
    case SourceKind::kBuiltins:
    case SourceKind::kHandledException:
    case SourceKind::kAbcToken:
      return RootText(s.kind);
    case SourceKind::kCachedResult:
      return base + ".<cache>[" + PlainText(s.key) + "]";
    case SourceKind::kClosureCell:
      return Indexed("function.__closure__", s.index);
    case SourceKind::kConstant:
      return PlainText(s.key);
    case SourceKind::kCellContents:
      return base + ".cell_contents";
    case SourceKind::kInstanceAttr:
    case SourceKind::kModuleAttr:
    case SourceKind::kTypeAttr:
    case SourceKind::kFunctionField:
    case SourceKind::kPartialField:
      return Dotted(base, s.key);
    case SourceKind::kSlotAttr:
      return base + "." + PlainText(PyUnicode_Check(s.key.get()) ? s.key.get() : PyDescr_NAME(s.key.get()));
    case SourceKind::kInstanceDict:
    case SourceKind::kThreadDict:
    case SourceKind::kMethodSelf:
    case SourceKind::kMethodFunction:
    case SourceKind::kTensorGrad:
    case SourceKind::kMaxlen:
      return base + FieldText(s.kind);
    case SourceKind::kType:
    case SourceKind::kTensorOfArray:
      if (s.index >= kOfNumbers) return TensorText(base, s.index);
      [[fallthrough]];
    case SourceKind::kViewed:
      return AppliedText(s.kind, base) + (s.index == 0 ? "" : " #" + std::to_string(s.index));
    case SourceKind::kItem:
      return base + "[" + ReprText(s.key) + "]";
    case SourceKind::kDefault:
      return Indexed(base + ".__defaults__", s.index);
    case SourceKind::kKwDefault:
      return base + ".__kwdefaults__[" + ReprText(s.key) + "]";
    case SourceKind::kFunctionCell:
      return Indexed(base + ".__closure__", s.index);
    case SourceKind::kWeakrefTarget:
    case SourceKind::kContextValue:
    case SourceKind::kContextDefault:
      return CalledText(base, s.kind);
    case SourceKind::kLength:
      return TextOfLength(base);
  }
  return "<unknown>";
}

}  // namespace framefuse
