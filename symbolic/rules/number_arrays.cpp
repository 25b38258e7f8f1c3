#include "symbolic/rules/number_arrays.h"

#include <torch/csrc/autograd/python_variable.h>

#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/hash/hash.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "guards/leaf/value.h"
#include "symbolic/rules/numpy_scalars.h"
#include "symbolic/rules/self_holding.h"
#include "symbolic/tracing/later_writes.h"

namespace framefuse {
namespace {

constexpr Py_ssize_t kMostBytes = 1 << 16;

struct Layout {
  std::string format;
  std::vector<Py_ssize_t> sizes, strides;  // numpy lays out its results as their operands
  bool aligned = true;                     // else numpy copies what it would take as it is
  friend bool operator==(const Layout&, const Layout&) = default;
};

struct Contents {
  Layout layout;
  std::string bytes;  // row by row
  friend bool operator==(const Contents&, const Contents&) = default;
};

class Buffer {
 public:
  explicit Buffer(PyObject* object) : there_(PyObject_GetBuffer(object, &view_, PyBUF_RECORDS_RO) == 0) {
    if (!there_) PyErr_Clear();
  }
  ~Buffer() {
    if (there_) PyBuffer_Release(&view_);
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  bool HasLayout() const {
    constexpr std::string_view kNumbers = "?bBhHiIlLqQefd";
    return there_ && view_.format != nullptr && std::strlen(view_.format) == 1 &&
           kNumbers.find(view_.format[0]) != std::string_view::npos;
  }
  bool HoldsNumbers() const { return HasLayout() && view_.len <= kMostBytes; }
  std::optional<Layout> ReadLayout() const {
    if (!HasLayout()) return std::nullopt;
    Layout layout{view_.format, {view_.shape, view_.shape + view_.ndim}, {}};
    if (view_.strides != nullptr) layout.strides.assign(view_.strides, view_.strides + view_.ndim);
    layout.aligned = reinterpret_cast<std::uintptr_t>(view_.buf) % static_cast<std::size_t>(view_.itemsize) == 0;
    return layout;
  }
  std::optional<Contents> Read() {
    if (!HoldsNumbers()) return std::nullopt;
    Contents contents{*ReadLayout(), {}};
    contents.bytes.resize(static_cast<std::size_t>(view_.len));
    if (PyBuffer_ToContiguous(contents.bytes.data(), &view_, view_.len, 'C') != 0) {
      PyErr_Clear();
      return std::nullopt;
    }
    return contents;
  }

 private:
  Py_buffer view_{};
  bool there_;
};

class HeldLayout final : public ValueFact {
 public:
  explicit HeldLayout(Layout layout) : layout_(std::move(layout)) {}

  bool Holds(absl::Span<PyObject* const> arrays) const noexcept override {
    return arrays[0] != nullptr && IsArrayType(Py_TYPE(arrays[0])) && Buffer(arrays[0]).ReadLayout() == layout_;
  }
  std::string Expression(absl::Span<const std::string> names) const override {
    return absl::StrCat(names[0], " is an array of ", layout_.format, " of the sizes (",
                        absl::StrJoin(layout_.sizes, ", "), ") and strides that it had");
  }
  std::string Failure(absl::Span<const std::string> names, absl::Span<PyObject* const>) const override {
    return absl::StrCat(names[0], " is an array of another type, other sizes or other strides");
  }

 private:
  Layout layout_;
};

class HeldContents final : public ValueFact {
 public:
  explicit HeldContents(Contents contents) : contents_(std::move(contents)) {}

  bool Holds(absl::Span<PyObject* const> arrays) const noexcept override {
    if (arrays[0] == nullptr || !IsArrayType(Py_TYPE(arrays[0]))) return false;
    return Buffer(arrays[0]).Read() == contents_;
  }
  bool IsOfAllContents() const noexcept override { return true; }
  std::string Expression(absl::Span<const std::string> names) const override {
    return absl::StrCat(names[0], " holds the ", contents_.bytes.size(), " bytes that it held");
  }
  std::string Failure(absl::Span<const std::string> names, absl::Span<PyObject* const>) const override {
    return absl::StrCat(names[0], " holds other numbers");
  }

 private:
  Contents contents_;
};

PyTypeObject* ArrayType() {
  static PyObject* found = nullptr;
  if (found != nullptr) return reinterpret_cast<PyTypeObject*>(found);
  PyObject* numpy = PyDict_GetItemString(PyImport_GetModuleDict(), "numpy");
  found = numpy != nullptr ? PyObject_GetAttrString(numpy, "ndarray") : nullptr;
  if (found == nullptr) PyErr_Clear();
  return reinterpret_cast<PyTypeObject*>(found);
}

}  // namespace

bool IsArrayType(PyTypeObject* type) {
  if ((type->tp_flags & Py_TPFLAGS_HEAPTYPE) != 0 || std::strcmp(type->tp_name, "numpy.ndarray") != 0) return false;
  return type == ArrayType();
}

bool IsNumberArray(BorrowedRef object) { return IsArray(object) && Buffer(object.get()).HoldsNumbers(); }

namespace {
bool AreAllForNumpy(BorrowedRef object) {
  PyObject* o = object;
  if (PyTuple_CheckExact(o) || PyList_CheckExact(o)) {
    bool all = true;
    for (Py_ssize_t i = 0; all && i < PySequence_Fast_GET_SIZE(o); ++i)
      all = AreAllForNumpy(PySequence_Fast_GET_ITEM(o, i));
    return all;
  }
  return PyUnicode_CheckExact(o) || IsNumberForNumpy(object) || IsNumberArray(object);
}
}  // namespace

bool IsForNumpy(BorrowedRef object) { return !HoldsItself(object) && AreAllForNumpy(object); }

bool MayWriteArray(BorrowedRef function, absl::Span<const ValueView> args, BorrowedRef kwnames) {
  const std::size_t named = kwnames ? static_cast<std::size_t>(PyTuple_GET_SIZE(kwnames.get())) : 0;
  for (std::size_t i = 0; i < named; ++i) {
    if (PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(kwnames.get(), static_cast<Py_ssize_t>(i)), "out") == 0) {
      return true;
    }
  }
  // A universal function says how many it reads; of the others none has a place for its result before the third.
  std::size_t read = 2;
  if (const Ref inputs = Ref::Steal(PyObject_GetAttrString(function, "nin")); inputs && PyLong_Check(inputs.get())) {
    read = PyLong_AsSize_t(inputs);
  }
  PyErr_Clear();
  if (args.size() > named && PyUnicode_Check(args[0].object.get())) return false;  // einsum takes any number of arrays
  for (std::size_t i = read; i < args.size() - named; ++i) {
    if (IsArray(args[i].object)) return true;
  }
  return false;
}

bool WarnsOfTooFew(BorrowedRef function, absl::Span<const ValueView> args, BorrowedRef kwnames) {
  const Ref name = Ref::Steal(PyObject_GetAttrString(function, "__name__"));
  PyErr_Clear();
  const auto is = [&](const char* text) {
    return name && PyUnicode_Check(name.get()) && PyUnicode_CompareWithASCIIString(name, text) == 0;
  };
  const bool spread = is("std") || is("var");
  if (!spread && !is("mean") && !is("median")) return false;
  const std::size_t named = kwnames ? static_cast<std::size_t>(PyTuple_GET_SIZE(kwnames.get())) : 0;
  const std::size_t positional = args.size() - named;
  if (positional == 0 || PyObject_Size(args[0].object) == 0) return true;
  PyErr_Clear();
  const Ref size = Ref::Steal(PyObject_GetAttrString(args[0].object, "size"));
  PyErr_Clear();
  bool few = (size && PyLong_CheckExact(size.get()) && PyLong_AsLong(size) == 0) || (spread && positional > 2);
  for (std::size_t i = 0; spread && !few && i < named; ++i) {
    PyObject* key = PyTuple_GET_ITEM(kwnames.get(), static_cast<Py_ssize_t>(i));
    few = PyUnicode_CompareWithASCIIString(key, "axis") != 0 && PyUnicode_CompareWithASCIIString(key, "keepdims") != 0;
  }
  return few;
}

namespace {
PyObject* TypesOfNumbers() {
  static PyObject* found = nullptr;
  if (found != nullptr) return found;
  PyObject* numpy = PyDict_GetItemString(PyImport_GetModuleDict(), "numpy");
  found = numpy != nullptr ? PyObject_GetAttrString(numpy, "dtype") : nullptr;
  PyErr_Clear();
  return found;
}
}  // namespace

bool IsTypeOfNumbers(BorrowedRef object) {
  PyObject* all = TypesOfNumbers();
  return all != nullptr && PyType_IsSubtype(object.type(), reinterpret_cast<PyTypeObject*>(all)) != 0;
}

bool IsOwnTypeOfNumbers(BorrowedRef object) {
  if (!IsTypeOfNumbers(object)) return false;
  const Ref of = Ref::Steal(PyObject_GetAttrString(object, "type"));
  const Ref own = of ? Ref::Steal(PyObject_CallOneArg(TypesOfNumbers(), of)) : Ref();
  PyErr_Clear();
  return own.get() == object.get();
}

// No version counts what is written through `x.data`, or to an inference tensor.
bool IsWritten(BorrowedRef fake) { return tracing::IsWrittenFrom(fake, 0); }

bool MayBeWritten(BorrowedRef fake) { return THPVariable_Unpack(fake.get()).is_inference() || IsWritten(fake); }

void GuardContents(BorrowedRef array, SourceId source, GuardSet& guards) {
  std::optional<Contents> contents = Buffer(array.get()).Read();
  if (!contents) return;
  guards.AddValue({{source}, std::make_shared<HeldContents>(*std::move(contents))}, UserLocation{});
}

bool HasLayoutOfNumbers(BorrowedRef object) { return IsArray(object) && Buffer(object.get()).HasLayout(); }

std::uint64_t DigestOfContents(BorrowedRef array) {
  const std::optional<Contents> contents = Buffer(array.get()).Read();
  return contents ? absl::HashOf(contents->bytes) : 0;
}

void GuardLayoutOf(BorrowedRef array, SourceId source, GuardSet& guards) {
  std::optional<Layout> layout = Buffer(array.get()).ReadLayout();
  if (!layout) return;
  guards.AddValue({{source}, std::make_shared<HeldLayout>(*std::move(layout))}, UserLocation{});
}

bool IsReadAttribute(std::string_view name) { return IsSizeAttribute(name) || name == "T"; }

bool IsSizeAttribute(std::string_view name) {
  return name == "shape" || name == "ndim" || name == "size" || name == "dtype" || name == "itemsize" ||
         name == "nbytes";
}

bool IsReadMethod(std::string_view name) {
  static const auto* names = new absl::flat_hash_set<std::string_view>{
      "all",      "any",      "argmax", "argmin",  "argsort",   "astype",       "clip",    "copy",       "cumprod",
      "cumsum",   "diagonal", "dot",    "flatten", "item",      "max",          "mean",    "min",        "nonzero",
      "prod",     "ravel",    "repeat", "reshape", "round",     "searchsorted", "squeeze", "std",        "sum",
      "swapaxes", "take",     "tolist", "trace",   "transpose", "var",          "__len__", "__getitem__"};
  return names->contains(name);
}

}  // namespace framefuse
