// Texts of guards: the one that fails with both values, and all as a Python function.
#include <sstream>

#include "guards/program.h"
#include "guards/text.h"

namespace framefuse {
namespace {

std::string LocationText(const FactLocation& where) {
  const std::string path = PlainText(where.file);
  return path.substr(path.find_last_of('/') + 1) + ":" + std::to_string(where.line);
}

std::string WithLocation(const std::string& text, const FactLocation& where) {
  return where.file ? text + " (" + LocationText(where) + ")" : text;
}

std::string ElementsText(const std::vector<Held>& elements) {
  std::string text = "[";
  for (const Held& e : elements) text += (text.size() > 1 ? ", " : "") + ReprText(e.get());
  return text + "]";
}

std::string KeysText(BorrowedRef dict) {
  std::string text = "[";
  Py_ssize_t position = 0;
  PyObject* key = nullptr;
  while (dict && PyDict_Check(dict.get()) && PyDict_Next(dict.get(), &position, &key, nullptr)) {
    text += (text.size() > 1 ? ", " : "") + ReprText(key);
  }
  return text + "]";
}

std::string ExpectedText(const Held& expected) {
  return expected.weak() && !expected.get() ? "<an object that is gone>" : ReprText(expected.get());
}

std::string ObjectText(const DistinctObject& object, const std::string& source) {
  return object.attributes ? "vars(" + source + ")" : source;
}

// Walks a frame's sources in order, keeping their values.
class Walk {
 public:
  Walk(const ProgramImage& image, const FrameView& frame, const GuardSeen* seen = nullptr)
      : image_(image), frame_(frame), seen_(seen), values_(image.reads.size()) {}

  std::string FirstFailure();

 private:
  BorrowedRef Value(SourceId source) const { return values_[static_cast<std::size_t>(source)]; }
  std::string Name(SourceId source) const { return PrintSource(image_.sources, source, image_.slot_names); }
  std::string Told(GuardKind kind, std::string why) const {
    if (seen_ != nullptr) (*seen_)(kind, why);
    return why;
  }
  std::string Missing(SourceId source) const;
  std::string Check(const Fact& fact) const;
  std::string Coinciding() const;
  std::string Overlap() const;

  const ProgramImage& image_;
  const FrameView& frame_;
  const GuardSeen* seen_;
  std::vector<PyObject*> values_;
  std::vector<Ref> owned_;
};

std::string Walk::Missing(SourceId source) const {
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

std::string Walk::Check(const Fact& fact) const {
  const BorrowedRef value = Value(fact.source);
  std::string text;
  switch (fact.kind) {
    case GuardKind::kTensor: {
      const std::string why = ExplainTensor(image_.specs[static_cast<std::size_t>(fact.number)], value);
      Told(fact.kind, why);
      if (!why.empty()) text = "tensor '" + Name(fact.source) + "' " + why;
      break;
    }
    case GuardKind::kSameAs:
    case GuardKind::kDistinctFrom: {
      const auto other = static_cast<SourceId>(fact.number);
      const bool same = value == Value(other);
      if (same == (fact.kind == GuardKind::kSameAs)) break;
      text = Name(fact.source) + (same ? " is not " : " is ") + Name(other) + " failed";
      break;
    }
    default:
      if (!Holds(fact, value)) text = ExplainFact(fact, value, Name(fact.source));
  }
  if (fact.kind != GuardKind::kTensor) Told(fact.kind, text);
  return text.empty() ? text : WithLocation(text, fact.where);
}

std::string Walk::Coinciding() const {
  for (const DistinctObjects& group : image_.distinct) {
    const auto pair = DistinctChecker::FindCoinciding(group, values_.data());
    if (!pair) {
      Told(GuardKind::kDistinct, "");
      continue;
    }
    return Told(GuardKind::kDistinct, ObjectText(pair->first, Name(pair->first.source)) + " is not " +
                                          ObjectText(pair->second, Name(pair->second.source)) + " failed");
  }
  return "";
}

std::string Walk::Overlap() const {
  std::vector<MemoryRange> ranges;
  std::vector<std::string> names;
  for (SourceId source : image_.overlap_sources) {
    ranges.push_back(TensorMemory(Value(source)));
    names.push_back(Name(source));
  }
  return Told(GuardKind::kOverlap, ExplainOverlap(image_.overlap, FindOverlap(ranges), names));
}

std::string Walk::FirstFailure() {
  if (image_.has_global_state) {
    std::string text = Told(GuardKind::kGlobalState, ExplainGlobalState(image_.global_state, ReadGlobalState()));
    if (!text.empty()) return text;
  }
  std::size_t next = 0;
  for (std::size_t i = 1; i < image_.reads.size(); ++i) {
    const Read& read = image_.reads[i];
    if (read.kind == SourceKind::kNone) continue;
    const auto source = static_cast<SourceId>(i);
    values_[i] = ReadSource(read, values_[static_cast<std::size_t>(read.base)], frame_, &owned_);
    if (values_[i] == nullptr) {
      if (std::string text = Missing(source); !text.empty()) return text;
    }
    for (; next < image_.facts.size() && image_.facts[next].source == source; ++next) {
      const Fact& fact = image_.facts[next];
      if (IsRelation(fact.kind)) continue;
      if (std::string text = Check(fact); !text.empty()) return text;
    }
  }
  for (const Fact& fact : image_.facts) {
    if (!IsRelation(fact.kind)) continue;
    if (std::string text = Check(fact); !text.empty()) return text;
  }
  if (std::string text = Coinciding(); !text.empty()) return text;
  return image_.overlap_sources.empty() ? "" : Overlap();
}

}  // namespace

std::string FactExpression(const Fact& fact, const std::string& source) {
  const std::string key = fact.key.key.empty() ? "" : ReprText(fact.key.key.get());
  switch (fact.kind) {
    case GuardKind::kTypeIs:
      return "type(" + source + ") is " + ExpectedText(fact.expected);
    case GuardKind::kIdentity:
      return source + " is " + ExpectedText(fact.expected);
    case GuardKind::kEquals:
      return source + " == " + ExpectedText(fact.expected);
    case GuardKind::kLength:
      return "len(" + source + ") == " + std::to_string(fact.number);
    case GuardKind::kKeys:
      return "list(" + source + ") == " + ElementsText(fact.elements);
    case GuardKind::kHasKey:
      return key + " in " + source;
    case GuardKind::kLacksKey:
      return key + " not in " + source;
    case GuardKind::kLacksAttr:
      return key + " not in " + source + ".__dict__";
    case GuardKind::kSetEquals:
      return "list(" + source + ") == " + ElementsText(fact.elements);
    case GuardKind::kTypeLookup:
      return "lookup(" + source + ", " + key + ") is " +
             (fact.number != 0        ? "as in version " + std::to_string(fact.number)
              : fact.expected.empty() ? "<absent>"
                                      : ExpectedText(fact.expected));
    case GuardKind::kTypeLookups:
      return "lookups(" + source + ", " + ReprText(fact.found) + ") are " + ElementsText(fact.elements) +
             " and lookups(" + source + ", " + ReprText(fact.absent) + ") are <absent>";
    case GuardKind::kCellEmpty:
      return "is_empty(" + source + ")";
    case GuardKind::kNull:
      return "is_unbound(" + source + ")";
    default:
      return "";
  }
}

std::string ExplainFact(const Fact& fact, BorrowedRef value, const std::string& source) {
  std::string failed = FactExpression(fact, source) + " failed";
  if (!value) return fact.kind == GuardKind::kNull ? failed : failed + ": it is missing";
  switch (fact.kind) {
    case GuardKind::kTypeIs:
      return failed + ": " + TypeText(value.type());
    case GuardKind::kIdentity:
    case GuardKind::kEquals:
    case GuardKind::kNull:
      return failed + ": " + ReprText(value);
    case GuardKind::kLength:
      return failed + ": " + std::to_string(RawLength(value));
    case GuardKind::kKeys:
      return failed + ": " + KeysText(value);
    default:
      return failed;
  }
}

std::string ExplainImage(const ProgramImage& image, const FrameView& frame) {
  return Walk(image, frame).FirstFailure();
}

void WalkImage(const ProgramImage& image, const FrameView& frame, const GuardSeen& seen) {
  Walk(image, frame, &seen).FirstFailure();
}

std::string ImageText(const ProgramImage& image, const std::string& name) {
  std::ostringstream text;
  text << "def " << name << "(L, G, B, function):\n";
  const auto line = [&](const std::string& expression, const FactLocation& where) {
    text << "    if not (" << expression << "): return False";
    if (where.file) text << "  # " << LocationText(where);
    text << '\n';
  };
  if (image.has_global_state) {
    text << "    if not torch_state(): return False  # " << DescribeGlobalState(image.global_state) << '\n';
  }
  const auto print = [&](SourceId source) { return PrintSource(image.sources, source, image.slot_names); };
  for (const Fact& fact : image.facts) {
    const std::string source = print(fact.source);
    switch (fact.kind) {
      case GuardKind::kTensor: {
        const TensorSpec& spec = image.specs[static_cast<std::size_t>(fact.number)];
        line("is_tensor(" + source + ", " + TypeText(spec.type) + ", '" + DescribeTensor(spec) + "')", fact.where);
        break;
      }
      case GuardKind::kSameAs:
        line(source + " is " + print(static_cast<SourceId>(fact.number)), fact.where);
        break;
      case GuardKind::kDistinctFrom:
        line(source + " is not " + print(static_cast<SourceId>(fact.number)), fact.where);
        break;
      default:
        line(FactExpression(fact, source), fact.where);
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
  if (!image.overlap_sources.empty()) {
    text << "    if not overlap(";
    for (std::size_t i = 0; i < image.overlap_sources.size(); ++i) {
      text << (i ? ", " : "") << print(image.overlap_sources[i]) << " with " << image.overlap.class_of[i];
    }
    text << "): return False\n";
  }
  text << "    return True\n";
  return text.str();
}

}  // namespace framefuse
