#include "frame_eval/code_cache.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "frame_eval/versions/frame_ops.h"

namespace framefuse {
namespace {

struct Record {
  const Owner* owner;
  int offset;
  std::shared_ptr<Site> site;
};

// The value of a code object's extra slot.
struct CodeData {
  std::vector<Record> records;
};

// Never destroyed: code objects die after static destructors, at the end of the interpreter.
absl::flat_hash_set<CodeData*>& AllCodeData() {
  static auto* const all = new absl::flat_hash_set<CodeData*>;
  return *all;
}

absl::flat_hash_map<std::string, std::weak_ptr<Owner>>& SharedOwners() {
  static auto* const owners = new absl::flat_hash_map<std::string, std::weak_ptr<Owner>>;
  return *owners;
}

void FreeCodeData(void* extra) {
  auto* data = static_cast<CodeData*>(extra);
  if (data == nullptr) return;
  AllCodeData().erase(data);
  delete data;
}

Py_ssize_t ExtraIndex() {
  static const Py_ssize_t index = frame_ops::NewCodeExtraIndex(FreeCodeData);
  return index;
}

CodeData* GetExtra(PyObject* code) {
  return static_cast<CodeData*>(frame_ops::CodeExtra(reinterpret_cast<PyCodeObject*>(code), ExtraIndex()));
}

bool SetExtra(PyObject* code, CodeData* data) {
  if (frame_ops::SetCodeExtra(reinterpret_cast<PyCodeObject*>(code), ExtraIndex(), data)) return true;
  PyErr_Clear();
  return false;
}

CodeData* GetOrMake(PyObject* code) {
  if (CodeData* data = GetExtra(code)) return data;
  auto data = std::make_unique<CodeData>();
  if (!SetExtra(code, data.get())) return nullptr;
  AllCodeData().insert(data.get());
  return data.release();
}

Record* FindRecord(CodeData* data, const Owner& owner, int offset) {
  if (data == nullptr) return nullptr;
  for (Record& r : data->records) {
    if (r.owner == &owner && r.offset == offset) return &r;
  }
  return nullptr;
}

// Takes matching sites out of the cache first; they die at the caller's end, when the cache is consistent again.
template <class Predicate>
std::vector<std::shared_ptr<Site>> TakeOut(Predicate matches) {
  std::vector<std::shared_ptr<Site>> taken;
  for (CodeData* data : AllCodeData()) {
    auto keep =
        std::partition(data->records.begin(), data->records.end(), [&](const Record& r) { return !matches(r); });
    for (auto it = keep; it != data->records.end(); ++it) taken.push_back(std::move(it->site));
    data->records.erase(keep, data->records.end());
  }
  return taken;
}

}  // namespace

std::shared_ptr<Owner> Owner::Intern(std::string_view key, Ref kept) {
  std::weak_ptr<Owner>& slot = SharedOwners()[std::string(key)];
  if (std::shared_ptr<Owner> owner = slot.lock()) return owner;
  std::shared_ptr<Owner> owner = MakePrivate(key, std::move(kept));
  owner->shared_ = true;
  slot = owner;
  return owner;
}

std::shared_ptr<Owner> Owner::MakePrivate(std::string_view key, Ref kept) {
  return std::shared_ptr<Owner>(new Owner(key, std::move(kept)));
}

Owner::~Owner() {
  if (shared_) {
    auto it = SharedOwners().find(key_);
    // A new owner of the same key may have been made in the meantime.
    if (it != SharedOwners().end() && it->second.expired()) SharedOwners().erase(it);
  }
  CodeCache::Drop(*this);
}

bool Retries::MayTry() {
  if (calls_to_wait_ == 0) return true;
  --calls_to_wait_;
  return false;
}

void Retries::NoteFailure(std::string why) {
  last_failure_ = std::move(why);
  ++failures_;
  if (failures_ < kEachCall) return;
  const int doublings = std::min(failures_ - kEachCall, 30);
  calls_to_wait_ = std::min(1 << doublings, kLongest);
}

CompileId Site::NextCompileId() {
  static int frames = 0;
  if (last_id_) {
    ++last_id_.compile;
  } else {
    last_id_.frame = frames++;
  }
  return last_id_;
}

void FailedGuards::Note(const std::string& explanation) {
  constexpr std::string_view kFailed = " failed: ";
  constexpr std::size_t kMostValues = 4;
  if (explanation.empty()) return;
  const std::size_t at = explanation.find(kFailed);
  const std::string guard = explanation.substr(0, at);
  ++times_;
  auto found = std::find_if(failed_.begin(), failed_.end(), [&](const Failed& f) { return f.guard == guard; });
  if (found == failed_.end()) found = failed_.insert(failed_.end(), Failed{guard, "", {}, 0});
  ++found->times;
  found->last = explanation;
  if (at == std::string::npos) return;
  std::string values = explanation.substr(at + kFailed.size());
  values = values.substr(0, values.rfind(" ("));
  std::vector<std::string>& known = found->values;
  known.erase(std::remove(known.begin(), known.end(), values), known.end());
  known.push_back(std::move(values));
  if (known.size() > kMostValues) known.erase(known.begin());
}

std::string FailedGuards::Most() const {
  const auto most = std::max_element(failed_.begin(), failed_.end(),
                                     [](const Failed& a, const Failed& b) { return a.times < b.times; });
  if (most == failed_.end()) return "";
  std::string text = most->last;
  if (most->values.size() > 1) {
    const char* separator = "; before that ";
    for (std::size_t i = most->values.size() - 1; i-- > 0; separator = ", ") text += separator + most->values[i];
  }
  return text + "; " + std::to_string(most->times) + " of " + std::to_string(times_) + " failures";
}

void Turnover::NoteReplaced(const std::shared_ptr<Entry>& by) {
  const std::shared_ptr<Entry> latest = latest_.lock();
  const bool was_of_use = latest != nullptr && latest->was_found;
  if (has_replaced_ && !was_of_use) patience_ = std::min(patience_ * 2, kLongest);
  has_replaced_ = true;
  waited_ = 0;
  latest_ = by;
}

std::shared_ptr<Entry> Site::Find(MakerId maker, absl::FunctionRef<bool(const Entry&)> matches) {
  for (const bool own : {true, false}) {
    for (std::size_t i = 0; i < made_.size(); ++i) {
      if ((made_[i].maker == maker) != own || !matches(*made_[i].entry)) continue;
      std::shared_ptr<Entry> found = made_[i].entry;
      found->was_found = true;
      made_[i].last_use = misses_at_limit_;
      died_unfound_ = 0;
      if (i != 0) {
        const auto at = made_.begin() + static_cast<std::ptrdiff_t>(i);
        std::rotate(made_.begin(), at, at + 1);
      }
      return found;
    }
  }
  return nullptr;
}

void Site::Install(std::shared_ptr<Entry> entry, MakerId maker, const void* shown) {
  made_.insert(made_.begin(), Made{std::move(entry), maker, shown, misses_at_limit_});
}

Site::MadeEntries::iterator Site::Oldest(Kin kin) {
  const auto oldest = std::find_if(made_.rbegin(), made_.rend(), [&](const Made& m) {
    return kin.maker == kAllMakers ? m.shown == kin.shown : m.maker == kin.maker;
  });
  return oldest == made_.rend() ? made_.end() : std::prev(oldest.base());
}

bool Site::MayReplace(Kin kin) {
  Turnover& turnover = turnovers_[kin.maker];
  turnover.NoteMiss();
  ++misses_at_limit_;
  const auto oldest = Oldest(kin);
  return oldest != made_.end() && turnover.Allows(misses_at_limit_ - oldest->last_use);
}

bool Site::Replace(Kin kin, const std::shared_ptr<Entry>& by) {
  const auto oldest = Oldest(kin);
  if (oldest == made_.end()) return false;
  turnovers_[kin.maker].NoteReplaced(by);
  Remove(oldest->entry.get());
  return true;
}

void Site::Remove(const Entry* entry) {
  auto at = std::find_if(made_.begin(), made_.end(), [&](const Made& m) { return m.entry.get() == entry; });
  if (at == made_.end()) return;
  const std::shared_ptr<Entry> last_reference = std::move(at->entry);
  made_.erase(at);
}

std::vector<std::shared_ptr<Entry>> Site::Entries() const {
  std::vector<std::shared_ptr<Entry>> entries;
  entries.reserve(made_.size());
  for (const Made& m : made_) entries.push_back(m.entry);
  return entries;
}

std::vector<std::shared_ptr<Entry>> Site::EntriesOf(MakerId maker) const {
  std::vector<std::shared_ptr<Entry>> entries;
  for (const Made& m : made_) {
    if (m.maker == maker) entries.push_back(m.entry);
  }
  return entries;
}

std::size_t Site::CountOf(MakerId maker) const {
  return static_cast<std::size_t>(
      std::count_if(made_.begin(), made_.end(), [&](const Made& m) { return m.maker == maker; }));
}

std::size_t Site::CountShown(const void* shown) const {
  return static_cast<std::size_t>(
      std::count_if(made_.begin(), made_.end(), [&](const Made& m) { return m.shown == shown; }));
}

void Site::RemoveDead() {
  if (std::none_of(made_.begin(), made_.end(), [](const Made& m) { return m.entry->IsDead(); })) return;
  for (const std::shared_ptr<Entry>& entry : Entries()) {
    if (!entry->IsDead()) continue;
    if (!entry->was_found) ++died_unfound_;
    Remove(entry.get());
  }
}

Site* CodeCache::Peek(BorrowedRefOf<PyCodeObject> code, const Owner& owner, int offset) {
  const Record* record = FindRecord(GetExtra(code.as_object()), owner, offset);
  return record != nullptr ? record->site.get() : nullptr;
}

std::shared_ptr<Site> CodeCache::Find(BorrowedRefOf<PyCodeObject> code, const Owner& owner, int offset) {
  const Record* record = FindRecord(GetExtra(code.as_object()), owner, offset);
  return record != nullptr ? record->site : nullptr;
}

std::shared_ptr<Site> CodeCache::Get(BorrowedRefOf<PyCodeObject> code, const Owner& owner, int offset) {
  CodeData* data = GetOrMake(code.as_object());
  if (const Record* record = FindRecord(data, owner, offset)) return record->site;
  auto site = std::make_shared<Site>();
  // Without memory for the extra slot the site is not kept, and the code is looked at anew each time.
  if (data != nullptr) data->records.push_back({&owner, offset, site});
  return site;
}

std::size_t CodeCache::CountEntries(BorrowedRefOf<PyCodeObject> code, const Owner& owner) {
  std::size_t count = 0;
  if (const CodeData* data = GetExtra(code.as_object())) {
    for (const Record& r : data->records) count += r.owner == &owner ? r.site->size() : 0;
  }
  return count;
}

std::size_t CodeCache::CountShown(BorrowedRefOf<PyCodeObject> code, const Site& site, const void* shown) {
  const CodeData* data = GetExtra(code.as_object());
  if (data == nullptr) return 0;
  const auto own =
      std::find_if(data->records.begin(), data->records.end(), [&](const Record& r) { return r.site.get() == &site; });
  if (own == data->records.end()) return 0;
  std::size_t count = 0;
  for (const Record& r : data->records) count += r.offset == own->offset ? r.site->CountShown(shown) : 0;
  return count;
}

std::vector<int> CodeCache::Offsets(BorrowedRefOf<PyCodeObject> code, const Owner& owner) {
  std::vector<int> offsets;
  if (const CodeData* data = GetExtra(code.as_object())) {
    for (const Record& r : data->records) {
      if (r.owner == &owner) offsets.push_back(r.offset);
    }
  }
  std::sort(offsets.begin(), offsets.end());
  return offsets;
}

void CodeCache::Reset() {
  TakeOut([](const Record&) { return true; });
}

void CodeCache::Drop(const Owner& owner) {
  TakeOut([&](const Record& r) { return r.owner == &owner; });
}

}  // namespace framefuse
