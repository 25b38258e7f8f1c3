// Texts of guards: the one that fails with both values, and all as a Python function.
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/indexed_vector.h"
#include "common/logging.h"
#include "guards/changed_places.h"
#include "guards/kinds.h"
#include "guards/program.h"
#include "guards/read.h"
#include "guards/text.h"

namespace framefuse {
namespace {

std::string PlaceText(BorrowedRef file, std::int32_t line) {
  const std::string path = PlainText(file);
  return path.substr(path.find_last_of('/') + 1) + ":" + std::to_string(line);
}

// With the nearest line of the user's, or with all callers (`+guards`).
std::string LocationText(const FactLocation& where) {
  const bool all = LogDetailed(LogArtifact::kGuards);
  std::string text = PlaceText(where.file, where.line);
  const char* before = ", called from ";
  for (const CallerLocation* at = where.caller.get(); at != nullptr && (all || !where.is_user); at = at->caller.get()) {
    if (!all && !at->is_user) continue;
    text += before + PlaceText(at->file, at->line);
    before = ", ";
    if (!all) break;
  }
  return text;
}

std::string WithLocation(const std::string& text, const FactLocation& where) {
  return where.file ? text + " (" + LocationText(where) + ")" : text;
}

std::string ObjectText(const DistinctObject& object, const std::string& source) {
  return object.attributes ? "vars(" + source + ")" : source;
}

// Walks a frame's sources in order, keeping their values.
class Explainer {
 public:
  Explainer(const ProgramImage& image, const FrameView& frame, const GuardSeen* seen = nullptr)
      : image_(image), frame_(frame), seen_(seen), values_(image.reads.size()) {}

  std::string FirstFailure();
  std::vector<GuardProgram::OtherSizes> FindOtherSizes();

 private:
  BorrowedRef Value(SourceId source) const { return values_[source]; }
  std::string Name(SourceId source) const { return PrintSource(image_.sources, source, image_.slot_names); }
  std::vector<std::string> NamesOf(const ReadValue& value) const {
    std::vector<std::string> names;
    for (SourceId source : value.sources) names.push_back(Name(source));
    return names;
  }
  std::string Told(GuardKind kind, std::string why) const {
    if (seen_ != nullptr) (*seen_)(kind, why);
    return why;
  }
  std::string Missing(SourceId source) const;
  std::string Check(const Fact& fact) const;
  std::string Coinciding() const;
  std::string Overlap() const;
  std::string Values() const;

  const ProgramImage& image_;
  const FrameView& frame_;
  const GuardSeen* seen_;
  IndexedVector<SourceId, PyObject*> values_;
  std::vector<Ref> owned_;
};

std::string Explainer::Missing(SourceId source) const {
  FactLocation where;
  const Fact* first = nullptr;
  for (const Fact& fact : image_.facts) {
    if (fact.source != source) continue;
    if (fact.kind == GuardKind::kNull) return "";
    if (first == nullptr) first = &fact;
    if (!where.file) where = fact.where;
  }
  return Told(first != nullptr ? first->kind : GuardKind::kTypeIs, WithLocation(Name(source) + " is missing", where));
}

std::string Explainer::Check(const Fact& fact) const {
  const BorrowedRef value = Value(fact.source);
  const GuardKindRow& row = RowOf(fact.kind);
  std::string text;
  switch (row.scope) {
    case GuardScope::kValue:
      if (!row.holds(fact, value)) text = ExplainFact(fact, value, Name(fact.source));
      break;
    case GuardScope::kTensor: {
      const std::string why = ExplainTensor(image_.specs[static_cast<std::size_t>(fact.number)], value);
      Told(fact.kind, why);
      return why.empty() ? why : WithLocation("tensor '" + Name(fact.source) + "' " + why, fact.where);
    }
    case GuardScope::kTwoValues: {
      const auto other = static_cast<SourceId>(fact.number);
      if (row.holds_between(value, Value(other))) break;
      text = row.expression(fact, {Name(fact.source), Name(other)}) + " failed";
      break;
    }
    case GuardScope::kWhole:
      break;  // no fact is made of it
  }
  Told(fact.kind, text);
  return text.empty() ? text : WithLocation(text, fact.where);
}

std::string Explainer::Coinciding() const {
  for (const DistinctObjects& group : image_.distinct) {
    const auto pair = DistinctChecker::FindCoinciding(group, values_.items().data());
    if (!pair) {
      Told(GuardKind::kDistinct, "");
      continue;
    }
    return Told(GuardKind::kDistinct, ObjectText(pair->first, Name(pair->first.source)) + " is not " +
                                          ObjectText(pair->second, Name(pair->second.source)) + " failed");
  }
  return "";
}

std::string Explainer::Overlap() const {
  std::vector<MemoryRange> ranges;
  std::vector<std::string> names;
  for (SourceId source : image_.overlap.sources) {
    ranges.push_back(TensorMemory(Value(source)));
    names.push_back(Name(source));
  }
  return Told(GuardKind::kOverlap, ExplainOverlap(image_.overlap.fact, FindOverlap(ranges), names));
}

std::string Explainer::Values() const {
  for (const GuardedValue& value : image_.values) {
    std::vector<PyObject*> tensors;
    for (SourceId source : value.read.sources) tensors.push_back(Value(source).get());
    const ValueFact& fact = *value.read.fact;
    if (fact.Holds(tensors)) {
      Told(GuardKind::kValueOfTensors, "");
      continue;
    }
    const std::string why = fact.Failure(NamesOf(value.read), tensors);
    return Told(GuardKind::kValueOfTensors, WithLocation(why, value.where));
  }
  return "";
}

std::string Explainer::FirstFailure() {
  if (image_.torch_state.present) {
    std::string text =
        Told(GuardKind::kGlobalState,
             ExplainGlobalState(image_.torch_state.values, ReadGlobalState(image_.torch_state.values.settings != 0)));
    if (!text.empty()) return text;
  }
  std::size_t next = 0;
  for (std::size_t i = 1; i < image_.reads.size(); ++i) {
    const Read& read = image_.reads[i];
    if (read.kind == SourceKind::kNone) continue;
    const auto source = static_cast<SourceId>(i);
    values_[i] = ReadSource(read, values_[read.base], frame_, &owned_);
    if (values_[i] == nullptr) {
      if (std::string text = Missing(source); !text.empty()) return text;
    }
    for (; next < image_.facts.size() && image_.facts[next].source == source; ++next) {
      const Fact& fact = image_.facts[next];
      if (IsRelation(fact)) continue;
      if (std::string text = Check(fact); !text.empty()) return text;
    }
  }
  for (const Fact& fact : image_.facts) {
    if (!IsRelation(fact)) continue;
    if (std::string text = Check(fact); !text.empty()) return text;
  }
  if (std::string text = Coinciding(); !text.empty()) return text;
  if (!image_.overlap.sources.empty()) {
    if (std::string text = Overlap(); !text.empty()) return text;
  }
  return Values();
}

namespace {
bool IsOtherNumber(const Fact& fact, BorrowedRef value) {
  const auto is_number = [](PyObject* o) {
    const bool of_numpy =
        (Py_TYPE(o)->tp_flags & Py_TPFLAGS_HEAPTYPE) == 0 && absl::StartsWith(Py_TYPE(o)->tp_name, "numpy.");
    return PyLong_CheckExact(o) || PyFloat_CheckExact(o) || of_numpy;
  };
  return fact.kind == GuardKind::kEquals && value && fact.expected.get() && is_number(value.get()) &&
         Py_TYPE(fact.expected.get()) == Py_TYPE(value.get()) && !Holds(fact, value);
}
// Items of a torch.Size, which is compared as a whole.
std::vector<Py_ssize_t> OtherItems(const Fact& fact, BorrowedRef value) {
  std::vector<Py_ssize_t> other;
  PyObject *before = fact.expected.get(), *now = value.get();
  if (fact.kind != GuardKind::kEquals || now == nullptr || before == nullptr || Py_TYPE(before) != Py_TYPE(now) ||
      !PyTuple_Check(now) || PyTuple_GET_SIZE(now) != PyTuple_GET_SIZE(before)) {
    return other;
  }
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(now); ++i) {
    PyObject *a = PyTuple_GET_ITEM(before, i), *b = PyTuple_GET_ITEM(now, i);
    if (PyLong_CheckExact(a) && PyLong_CheckExact(b) && PyObject_RichCompareBool(a, b, Py_EQ) == 0) other.push_back(i);
  }
  return other;
}
bool IsOtherLength(const Fact& fact, BorrowedRef value) {
  const Py_ssize_t length = value ? RawLength(value) : -1;
  return length >= 0 && length != fact.number;
}
}  // namespace

// Also where other guards fail: what is read of an object that is not there is left out.
std::vector<GuardProgram::OtherSizes> Explainer::FindOtherSizes() {
  std::vector<GuardProgram::OtherSizes> found;
  std::size_t next = 0;
  for (std::size_t i = 1; i < image_.reads.size(); ++i) {
    const Read& read = image_.reads[i];
    if (read.kind == SourceKind::kNone) continue;
    const auto source = static_cast<SourceId>(i);
    values_[i] = ReadSource(read, values_[read.base], frame_, &owned_);
    for (; next < image_.facts.size() && image_.facts[next].source <= source; ++next) {
      const Fact& fact = image_.facts[next];
      if (fact.source != source) continue;
      if (IsOtherNumber(fact, values_[i])) {
        found.push_back({Name(source), {}, {}});
        if (read.integer_key) found.push_back({TextOfItems(Name(read.base)), {}, {}});
      }
      for (const Py_ssize_t item : OtherItems(fact, values_[i])) {
        found.push_back({absl::StrCat(Name(source), "[", item, "]"), {}, {}});
      }
      if (fact.kind == GuardKind::kLength && IsOtherLength(fact, values_[i])) {
        found.push_back({TextOfLength(Name(source)), {}, {}});
      }
      if (fact.kind != GuardKind::kTensor) continue;
      const TensorSpec& spec = image_.specs[static_cast<std::size_t>(fact.number)];
      std::vector<int> sizes = DifferingSizes(spec, values_[i]), strides = DifferingStrides(spec, values_[i]);
      if (sizes.empty() && strides.empty()) continue;
      if (read.integer_key) found.push_back({TextOfItems(Name(read.base)), sizes, strides});
      found.push_back({Name(source), std::move(sizes), std::move(strides)});
    }
  }
  for (const GuardedValue& value : image_.values) {
    if (!value.read.fact->IsOfAllContents()) continue;
    const SourceId source = value.read.sources[0];
    PyObject* now = Value(source).get();
    if (!value.read.fact->Holds(absl::MakeConstSpan(&now, 1))) found.push_back({Name(source), {}, {}});
  }
  return found;
}

}  // namespace

std::vector<GuardProgram::OtherSizes> FindOtherSizes(const ProgramImage& image, const FrameView& frame) {
  return Explainer(image, frame).FindOtherSizes();
}

std::string ExplainImage(const ProgramImage& image, const FrameView& frame) {
  return Explainer(image, frame).FirstFailure();
}

void TellGuards(const ProgramImage& image, const FrameView& frame, const GuardSeen& seen) {
  Explainer(image, frame, &seen).FirstFailure();
}

std::string ImageText(const ProgramImage& image, const std::string& name) {
  std::ostringstream text;
  text << "def " << name << "(L, G, B, function):\n";
  const auto line = [&](const std::string& expression, const FactLocation& where) {
    text << "    if not (" << expression << "): return False";
    if (where.file) text << "  # " << LocationText(where);
    text << '\n';
  };
  if (image.torch_state.present) {
    text << "    if not torch_state(): return False  # " << DescribeGlobalState(image.torch_state.values) << '\n';
  }
  const auto print = [&](SourceId source) { return PrintSource(image.sources, source, image.slot_names); };
  for (const Fact& fact : image.facts) {
    const std::string source = print(fact.source);
    const GuardKindRow& row = RowOf(fact.kind);
    switch (row.scope) {
      case GuardScope::kTensor: {
        const TensorSpec& spec = image.specs[static_cast<std::size_t>(fact.number)];
        line("is_tensor(" + source + ", " + TypeText(spec.type) + ", '" + DescribeTensor(spec) + "')", fact.where);
        break;
      }
      case GuardScope::kValue:
        line(row.expression(fact, {source, ""}), fact.where);
        break;
      case GuardScope::kTwoValues:
        line(row.expression(fact, {source, print(static_cast<SourceId>(fact.number))}), fact.where);
        break;
      case GuardScope::kWhole:
        break;  // no fact is made of it
    }
  }
  for (const DistinctObjects& group : image.distinct) {
    const auto list = [&](const std::vector<DistinctObject>& objects) {
      std::string items;
      for (const DistinctObject& object : objects) {
        items += (items.empty() ? "" : ", ") + ObjectText(object, print(object.source));
      }
      return "[" + items + "]";
    };
    text << "    if not distinct(" << list(group.written) << ", " << list(group.others) << "): return False\n";
  }
  if (!image.overlap.sources.empty()) {
    text << "    if not overlap(";
    for (std::size_t i = 0; i < image.overlap.sources.size(); ++i) {
      text << (i ? ", " : "") << print(image.overlap.sources[i]) << " with " << image.overlap.fact.class_of[i];
    }
    text << "): return False\n";
  }
  for (const GuardedValue& value : image.values) {
    std::vector<std::string> names;
    for (SourceId source : value.read.sources) names.push_back(print(source));
    line(value.read.fact->Expression(names), value.where);
  }
  text << "    return True\n";
  return text.str();
}

}  // namespace framefuse
