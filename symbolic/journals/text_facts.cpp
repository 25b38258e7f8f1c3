#include "symbolic/journals/text_facts.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "guards/guard.h"
#include "guards/leaf/value.h"
#include "symbolic/journals/read_journal.h"
#include "symbolic/messages/code_text.h"

namespace framefuse {
namespace {

bool IsText(PyObject* object) { return object != nullptr && PyUnicode_CheckExact(object); }

// Of two exact strings, which are compared without Python code.
bool IsSame(PyObject* a, PyObject* b) { return a == b || PyUnicode_Compare(a, b) == 0; }

class OtherTexts final : public ValueFact {
 public:
  explicit OtherTexts(std::vector<Ref> texts) : texts_(std::move(texts)) {}

  bool Holds(absl::Span<PyObject* const> objects) const noexcept override {
    PyObject* const now = objects[0];
    return IsText(now) &&
           std::none_of(texts_.begin(), texts_.end(), [&](const Ref& text) { return IsSame(now, text.get()); });
  }
  std::string Expression(absl::Span<const std::string> names) const override {
    std::string text = absl::StrCat("type(", names[0], ") is str");
    for (const Ref& t : texts_) absl::StrAppend(&text, " and ", names[0], " != '", Utf8(t.get()), "'");
    return text;
  }
  std::string Failure(absl::Span<const std::string> names, absl::Span<PyObject* const> objects) const override {
    if (!IsText(objects[0])) return absl::StrCat(names[0], " is no str");
    return absl::StrCat(names[0], " is '", Utf8(objects[0]), "', with which it was compared");
  }

 private:
  std::vector<Ref> texts_;
};

// Where a loop asks the same again and again its value is guarded, as ever.
bool MayAsk(ReadJournal& reads) {
  constexpr std::ptrdiff_t kMostFacts = 16;
  const std::vector<Guard>& guards = reads.guards().guards();
  return std::count_if(guards.begin(), guards.end(),
                       [](const Guard& g) { return g.kind == GuardKind::kValueOfTensors; }) < kMostFacts;
}

bool IsArgument(ReadJournal& reads, ValueView leaf) {
  return leaf.source != kNoSource && IsText(leaf.object) && reads.sources()[leaf.source].kind == SourceKind::kLocal &&
         MayAsk(reads) && reads.MayRead(leaf.source);
}

void Add(ReadJournal& reads, ValueView leaf, std::vector<Ref> texts) {
  reads.guards().AddValue({{leaf.source}, std::make_shared<OtherTexts>(std::move(texts))}, UserLocation());
}

}  // namespace

bool IsOtherText(ReadJournal& reads, ValueView leaf, ValueView text) {
  if (!IsText(text.object) || text.source != kNoSource || !IsText(leaf.object) || IsSame(leaf.object, text.object)) {
    return false;
  }
  if (!IsArgument(reads, leaf)) return false;
  Add(reads, leaf, {Ref::Create(text.object)});
  return true;
}

bool IsNoneOfTexts(ReadJournal& reads, ValueView leaf, ValueView texts) {
  PyObject* const given = texts.object;
  const bool is_constant = PyTuple_CheckExact(given) || PyFrozenSet_CheckExact(given);
  if (texts.source != kNoSource || !is_constant || !IsText(leaf.object)) return false;
  const Ref list = Ref::Steal(PySequence_List(given));
  std::vector<Ref> others;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list.get()); ++i) {
    PyObject* const text = PyList_GET_ITEM(list.get(), i);
    if (!IsText(text) || IsSame(leaf.object, text)) return false;
    others.push_back(Ref::Create(text));
  }
  if (others.empty() || !IsArgument(reads, leaf)) return false;
  Add(reads, leaf, std::move(others));
  return true;
}

}  // namespace framefuse
