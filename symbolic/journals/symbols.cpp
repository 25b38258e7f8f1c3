#include "symbolic/journals/symbols.h"

#include <cmath>
#include <iterator>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/logging.h"
#include "frame_eval/versions/frame_ops.h"
#include "frame_eval/versions/private_api.h"
#include "guards/changed_places.h"
#include "guards/leaf/number_list.h"
#include "guards/read.h"
#include "symbolic/entry/numpy_kinds.h"
#include "symbolic/journals/frame_stack.h"
#include "symbolic/journals/object_table.h"
#include "symbolic/journals/read_journal.h"
#include "symbolic/messages/code_text.h"
#include "symbolic/rules/numpy_scalars.h"
#include "symbolic/tracing/numbers.h"

namespace framefuse {

// A module's buffers are of the sizes that it was made with, as its parameters are.
bool Symbols::IsBuffer(SourceId source) const {
  const Source& item = reads_.sources()[source];
  if (item.kind != SourceKind::kItem) return false;
  const Source& from = reads_.sources()[item.base];
  return from.kind == SourceKind::kInstanceAttr && PyUnicode_CompareWithASCIIString(from.key.get(), "_buffers") == 0;
}

namespace {
// What torch's mark_dynamic, maybe_mark_dynamic and mark_static leave on a tensor: sets of dimensions.
DimMask MarkedAs(BorrowedRef tensor, const char* name) {
  const Ref key = Ref::Steal(PyUnicode_InternFromString(name));
  PyObject* marks = frame_ops::RawInstanceAttr(tensor, key);
  if (marks == nullptr || !PySet_CheckExact(marks)) return 0;
  DimMask mask = 0;
  Py_ssize_t position = 0;
  PyObject* dim = nullptr;
  while (private_api::SetNext(marks, &position, &dim)) {
    const long d = PyLong_CheckExact(dim) ? PyLong_AsLong(dim) : -1;
    if (d >= 0 && d < kMostDims) mask |= DimMask{1} << d;
  }
  return mask;
}
}  // namespace

// A stride that follows from the sizes is symbolic with them (MakeSizesSymbolic).
tracing::SymbolicDims Symbols::DimsOf(BorrowedRef tensor, SourceId source, bool is_parameter) const {
  if (sizes_ == nullptr || !sizes_->takes_sizes()) return {};
  const DimMask pinned = MarkedAs(tensor, "_dynamo_static_indices");
  const bool all = sizes_->mode() == DynamicMode::kAll;
  if (all && is_parameter) return {};
  if (all && !IsBuffer(source)) return {~pinned, ~pinned};
  // Of a size that torch is to know nothing about, which has no such form here, it is known that it may change.
  const DimMask marked = MarkedAs(tensor, "_dynamo_dynamic_indices") |
                         MarkedAs(tensor, "_dynamo_weak_dynamic_indices") |
                         MarkedAs(tensor, "_dynamo_unbacked_indices");
  // Another parameter there is another module, not a size that changed.
  if (is_parameter) return {marked & ~pinned, 0};
  const PyCodeObject* code = frame_ops::Code(frames_.real_frame());
  tracing::SymbolicDims dims{marked | DimsOfNumbers(source), 0};
  for (const std::string& place : {TextOf(source), TextOfSiblings(source)}) {
    dims.sizes |= sizes_->Noted(code, place);
    dims.strides |= sizes_->NotedStrides(code, place);
  }
  return {dims.sizes & ~pinned, dims.strides & ~pinned};
}

// Of a sequence whose length changed: what a longer one has first is as the others are. Empty: it is no item of one.
std::string Symbols::TextOfSiblings(SourceId source) const {
  const Source& item = reads_.sources()[source];
  if (item.kind != SourceKind::kItem || !PyLong_CheckExact(item.key.get()) || !sizes_->any_numbers()) return "";
  const std::string base = TextOf(item.base);
  const bool other_length = sizes_->IsNotedNumber(frame_ops::Code(frames_.real_frame()), TextOfLength(base));
  return other_length ? TextOfItems(base) : "";
}

std::string Symbols::TextOf(SourceId source) const { return reads_.sources().Print(source, frames_.SlotNames()); }

bool Symbols::IsNoted(SourceId source) const {
  if (!sizes_->any_numbers()) return false;
  const PyCodeObject* code = frame_ops::Code(frames_.real_frame());
  if (sizes_->IsNotedNumber(code, TextOf(source))) return true;
  const std::string siblings = TextOfSiblings(source);
  return !siblings.empty() && sizes_->IsNotedNumber(code, siblings);
}

// With all sizes those integers at once that are arguments: others are how a model was configured, until they change.
bool Symbols::IsNumberSymbolic(SourceId source) const {
  if (sizes_ == nullptr || source == kNoSource) return false;
  switch (sizes_->mode()) {
    case DynamicMode::kNever:
      return false;
    case DynamicMode::kAll: {
      const Source& s = reads_.sources()[source];
      const bool length = s.kind == SourceKind::kLength && reads_.sources()[s.base].kind == SourceKind::kLocal;
      return length || s.kind == SourceKind::kLocal || IsNoted(source);
    }
    case DynamicMode::kWhatChanged:
    case DynamicMode::kNumbers:
      return IsNoted(source);
  }
  return false;
}

bool Symbols::IsNotedWithin(BorrowedRef list, const std::string& text) const {
  PyObject* o = list;
  const PyCodeObject* code = frame_ops::Code(frames_.real_frame());
  if (!PyList_CheckExact(o) && !PyTuple_CheckExact(o)) return sizes_->IsNotedNumber(code, text);
  if (sizes_->IsNotedNumber(code, TextOfLength(text)) || sizes_->IsNotedNumber(code, TextOfItems(text))) return true;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(o); ++i) {
    if (IsNotedWithin(PySequence_Fast_GET_ITEM(o, i), absl::StrCat(text, "[", i, "]"))) return true;
  }
  return false;
}

bool Symbols::TakesList(BorrowedRef list, SourceId source) {
  if (sizes_ == nullptr || !sizes_->takes_sizes()) return false;
  const bool all = sizes_->mode() == DynamicMode::kAll && reads_.sources()[source].kind == SourceKind::kLocal;
  const bool takes = all || (sizes_->any_numbers() && IsNotedWithin(list, TextOf(source)));
  took_array_ = took_array_ || takes;
  took_new_array_ = took_new_array_ || takes;
  return takes;
}

// The lengths that changed of the list, and of those in it, which a tensor is made of.
DimMask Symbols::DimsOfNumbers(SourceId source) const {
  const Source& made = reads_.sources()[source];
  if (made.kind != SourceKind::kTensorOfArray || made.index < kOfNumbers) return 0;
  const PyCodeObject* code = frame_ops::Code(frames_.real_frame());
  std::string text = TextOf(made.base);
  DimMask dims = 0;
  for (int d = 0; d < kMostDims; ++d, text += "[0]") {
    if (sizes_->IsNotedNumber(code, TextOfLength(text))) dims |= DimMask{1} << d;
  }
  return dims;
}

bool Symbols::TakesArray(SourceId source) {
  if (!IsNumberSymbolic(source)) return false;
  took_array_ = true;
  const int changes = sizes_->TimesNoted(frame_ops::Code(frames_.real_frame()), TextOf(source));
  took_new_array_ = took_new_array_ || changes < 2;
  return true;
}

namespace {
bool IsOfNumpy(BorrowedRef number) {
  return IsNumpyNumberType(number.type()) && !absl::StrContains(number.type()->tp_name, "bool");
}

// Its value as Python's number; null: it is none that a symbol may stand for.
Ref PlainOf(BorrowedRef number) {
  const bool is_int = PyIndex_Check(number.get()) != 0;
  Ref plain = Ref::Steal(is_int ? PyNumber_Index(number) : PyNumber_Float(number));
  if (!plain) PyErr_Clear();
  const bool fits = plain && (is_int ? IntegerOf(plain).has_value() : !std::isnan(PyFloat_AS_DOUBLE(plain.get())));
  return fits ? plain : Ref();
}

const Ref* FoundAt(const std::vector<std::pair<SourceId, Ref>>& known, SourceId source) {
  const auto found = absl::c_find_if(known, [&](const auto& n) { return n.first == source; });
  return found == known.end() ? nullptr : &found->second;
}

// The numbers, in their order, without sizes made of them.
std::vector<std::pair<SourceId, Ref>> WithoutSizes(const std::vector<std::pair<SourceId, Ref>>& known) {
  std::vector<std::pair<SourceId, Ref>> numbers;
  absl::c_copy_if(known, std::back_inserter(numbers), [](const auto& n) { return !PyTuple_Check(n.second.get()); });
  return numbers;
}

// A torch.Size with its symbolic items as `number_at` gives them; null: there are none.
template <typename NumberAt>
Ref SizeOf(BorrowedRef original, SourceId source, ReadJournal& reads, NumberAt&& number_at) {
  const Py_ssize_t count = PyTuple_GET_SIZE(original.get());
  std::vector<Ref> items;
  std::vector<SourceId> sources;
  bool any = false;
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* item = PyTuple_GET_ITEM(original.get(), i);
    sources.push_back(reads.sources().Item(source, Ref::Steal(PyLong_FromSsize_t(i))));
    Ref number = PyLong_CheckExact(item) ? number_at(item, sources.back()) : Ref();
    any = any || number;
    items.push_back(number ? std::move(number) : Ref::Create(item));
  }
  if (!any) return Ref();
  reads.AddGuard(source, GuardKind::kTypeIs, reinterpret_cast<PyObject*>(original.type()));
  reads.AddLength(source, count);
  Ref made = Ref::Steal(original.type()->tp_alloc(original.type(), count));
  for (std::size_t i = 0; made && i < items.size(); ++i) {
    reads.NoteLeaf(sources[i]);
    reads.Move(ValueView(items[i], sources[i]));
    PyTuple_SET_ITEM(made.get(), static_cast<Py_ssize_t>(i), items[i].release());
  }
  if (made) reads.Move(ValueView(made, source));  // where it is only moved the object itself comes back
  return made;
}
}  // namespace

Ref Symbols::NumberAt(BorrowedRef original, SourceId source) {
  if (PyTuple_Check(original.get())) {
    if (sizes_ == nullptr || source == kNoSource || !sizes_->any_numbers()) return Ref();
    if (const Ref* known = FoundAt(numbers_, source)) return *known;
    Ref size = SizeOf(original, source, reads_, [&](BorrowedRef item, SourceId at) { return NumberAt(item, at); });
    if (size) numbers_.emplace_back(source, size);
    return size;
  }
  const bool of_numpy = floats_ && IsOfNumpy(original);
  const bool is_float = PyFloat_CheckExact(original.get());
  if (!is_float && !of_numpy && !PyLong_CheckExact(original.get())) return Ref();
  if (is_float && !floats_) return Ref();
  if (const Ref* known = FoundAt(numbers_, source)) return *known;
  if (!IsNumberSymbolic(source)) return Ref();
  if (const Ref plain = PlainOf(original); !plain) return Ref();  // a NaN is not equal to itself
  Ref number = tracer_.sizes().MakeNumber(original);
  if (number && of_numpy) {
    reads_.AddGuard(source, GuardKind::kTypeIs, reinterpret_cast<PyObject*>(original.type()));
  }
  numbers_.emplace_back(source, number);
  return number;
}

// Another object each time, as Python's are.
Ref Symbols::LengthAt(BorrowedRef original, SourceId source, Py_ssize_t more) {
  const bool none = sizes_ == nullptr || sizes_->mode() == DynamicMode::kNever || source == kNoSource;
  if (none || reads_.IsLengthGuarded(source)) return Ref();
  const Py_ssize_t size = RawLength(original);
  const Ref length = size < 0 ? Ref() : Ref::Steal(PyLong_FromSsize_t(size));
  const Ref number =
      length ? NumberAt(length, reads_.sources().Intern(SourceKind::kLength, source, 0, nullptr)) : Ref();
  if (!number) return Ref();
  reads_.NoteSymbolicLength(source, number);
  return tracer_.numbers().Combine(tracing::SizeArithmetic::kAdd, number, Ref::Steal(PyLong_FromSsize_t(more)));
}

void Symbols::FreeDimsOf(SourceId source, int input_index) {
  DimMask sizes = 0, strides = 0;
  for (const tracing::SizeSymbol& s : tracer_.sizes().symbols()) {
    if (s.input_index == input_index) (s.of_stride ? strides : sizes) |= DimMask{1} << s.dim;
  }
  for (const tracing::SizedStride& s : tracer_.sizes().strides()) {
    if (s.input_index == input_index) strides |= DimMask{1} << s.dim;
  }
  if ((sizes | strides) != 0) (void)reads_.guards().FreeSizes(source, sizes, strides);
}

void Symbols::OnFact(ir::Dim fact) {
  const UserLocation& here = frames_.Here();
  const std::string path = here.code ? FileNameOf(here.code.get()) : "";
  places_.push_back(path.empty() ? path : absl::StrCat(path.substr(path.find_last_of('/') + 1), ":", here.line));
  FF_LOG(kDynamic) << tracer_.sizes().expressions().Print(fact) << (path.empty() ? "" : " at ") << places_.back();
}

bool Symbols::any_backed() const {
  return absl::c_any_of(tracer_.sizes().symbols(),
                        [](const tracing::SizeSymbol& s) { return s.input_index != tracing::kIsUnbackedSymbol; });
}

std::string Symbols::WhereNeeded(ir::SymbolIndex unbacked) const {
  const ir::ExprTable& table = tracer_.sizes().expressions();
  const std::vector<ir::Dim>& facts = tracer_.sizes().facts();
  for (std::size_t i = std::min(facts.size(), places_.size()); i-- > 0;) {
    const bool pins = facts[i].is_symbolic() && table[facts[i].expr].kind == ir::ExprKind::kEq;
    if (pins && table.LastUnbacked(facts[i]) == unbacked) return places_[i];
  }
  return "";
}

std::vector<DeferredFact> Symbols::Deferred(const std::vector<ValueReads::Definition>& definitions) const {
  std::vector<DeferredFact> deferred;
  const ir::ExprTable& table = tracer_.sizes().expressions();
  const std::vector<ir::Dim>& facts = tracer_.sizes().facts();
  for (std::size_t i = 0; i < facts.size(); ++i) {
    const ir::SymbolIndex symbol = table.LastUnbacked(facts[i]);
    if (symbol < 0) continue;
    const auto defined = absl::c_find_if(definitions, [&](const auto& d) { return d.symbol == symbol; });
    const std::string place = i < places_.size() && !places_[i].empty() ? absl::StrCat(" at ", places_[i]) : "";
    deferred.push_back({absl::StrCat(table.Print(facts[i]), place), defined->code, defined->instruction});
  }
  return deferred;
}

EntrySizes::Symbol Symbols::PlaceOf(ir::SymbolIndex symbol, const std::vector<TensorInput>& inputs) const {
  const auto i = static_cast<std::size_t>(symbol);
  const tracing::SizeSymbol& s = tracer_.sizes().symbols()[i];
  if (s.input_index == tracing::kIsUnbackedSymbol) return {kNoSource, kIsUnbacked};
  if (s.input_index >= 0) return {inputs[static_cast<std::size_t>(s.input_index)].source, s.dim, s.of_stride};
  const std::vector<std::pair<SourceId, Ref>> numbers = WithoutSizes(numbers_);
  const auto& [source, number] = numbers[static_cast<std::size_t>(s.dim)];
  const bool is_float = tracer_.sizes().expressions().symbols()[i].type == ir::NumberType::kFloat;
  if (IsOfNumpy(number)) return {source, is_float ? kIsNumpyFloat : kIsNumpyNumber};
  return {source, is_float ? kIsFloat : kIsNumber};
}

std::shared_ptr<const EntrySizes> Symbols::Close(const std::vector<TensorInput>& inputs) {
  if (none()) return nullptr;
  auto sizes = std::make_shared<EntrySizes>();
  sizes->expressions = tracer_.sizes().expressions();
  ReadValue read;
  const auto number = [&](SourceId source) {
    for (std::size_t i = 0; i < read.sources.size(); ++i) {
      if (read.sources[i] == source) return i;
    }
    read.sources.push_back(source);
    return read.sources.size() - 1;
  };
  std::vector<SizeFacts::Symbol> symbols;
  for (std::size_t i = 0; i < tracer_.sizes().symbols().size(); ++i) {
    sizes->symbols.push_back(PlaceOf(static_cast<ir::SymbolIndex>(i), inputs));
    const EntrySizes::Symbol& s = sizes->symbols.back();
    symbols.push_back({s.dim == kIsUnbacked ? 0 : number(s.source), s.dim, s.of_stride});
    FF_LOG(kDynamic) << sizes->expressions.symbols()[i].name << " is "
                     << (s.dim == kIsUnbacked ? "a number that the graph computes"
                                              : EntrySizes::NameOf(s, TextOf(s.source)));
  }
  std::vector<SizeFacts::Stride> strides;
  for (const tracing::SizedStride& s : tracer_.sizes().strides()) {
    strides.push_back({number(inputs[static_cast<std::size_t>(s.input_index)].source), s.dim, s.stride});
  }
  std::vector<SizeFacts::Condition> conditions;
  const std::vector<ir::Dim>& facts = tracer_.sizes().facts();
  for (std::size_t i = 0; i < facts.size(); ++i) {
    if (sizes->expressions.LastUnbacked(facts[i]) >= 0) continue;
    conditions.push_back({facts[i], i < places_.size() ? places_[i] : ""});
  }
  if (read.sources.empty()) return sizes;  // the graph defines them all
  read.fact =
      std::make_shared<SizeFacts>(sizes->expressions, std::move(symbols), std::move(strides), std::move(conditions));
  reads_.guards().AddValue(std::move(read), UserLocation());
  return sizes;
}

}  // namespace framefuse
