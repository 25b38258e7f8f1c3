// Recipes of classes that an attempt made, by a call of their metaclass with the names that they have now; of what
// stands in their namespaces; and of cells, which are filled once the classes that they may hold are there.
#include "absl/strings/str_cat.h"
#include "frame_eval/versions/frame_ops.h"
#include "symbolic/capture/capture.h"
#include "symbolic/reconstruct/recipe_builder.h"
#include "symbolic/rules/builtin_types.h"
#include "symbolic/rules/known_metaclass.h"

namespace framefuse {
namespace {

absl::Status NoRecipeOfClass(BorrowedRef cls) {
  const char* name = reinterpret_cast<PyTypeObject*>(cls.get())->tp_name;
  return MakeGraphBreak(GraphBreakKind::kNoRecipe, absl::StrCat("the class ", name, ", made in the frame"));
}

Ref Attribute(BorrowedRef object, const char* name) {
  Ref found = Ref::Steal(PyObject_GetAttrString(object, name));
  PyErr_Clear();
  return found;
}

// What type.__new__ and the metaclass have put there themselves.
bool IsAddedByMetaclass(BorrowedRef cls, BorrowedRef key, BorrowedRef value) {
  const auto named = [&](const char* name) { return PyUnicode_CompareWithASCIIString(key.get(), name) == 0; };
  if (Py_IS_TYPE(value.get(), &PyGetSetDescr_Type)) {
    const auto* descriptor = reinterpret_cast<PyDescrObject*>(value.get());
    return descriptor->d_type == reinterpret_cast<PyTypeObject*>(cls.get());
  }
  const KnownMetaclass metaclass = FindKnownMetaclass(reinterpret_cast<PyObject*>(cls.type()));
  if (metaclass == KnownMetaclass::kAbstract) return named("_abc_impl") || named("__abstractmethods__");
  return metaclass == KnownMetaclass::kFunction && named("_backward_cls");
}

bool IsAbstractMethod(BorrowedRef value) {
  const Ref mark = value ? Attribute(value, "__isabstractmethod__") : Ref();
  return mark && PyObject_IsTrue(mark) > 0;
}

// Whether the metaclass finds the abstract methods again that it found when it made the class: names may have changed.
bool KeepsAbstractMethods(BorrowedRef cls) {
  if (FindKnownMetaclass(reinterpret_cast<PyObject*>(cls.type())) != KnownMetaclass::kAbstract) return true;
  auto* type = reinterpret_cast<PyTypeObject*>(cls.get());
  const Ref found = Ref::Steal(PySet_New(nullptr));
  PyObject *name, *value;
  for (Py_ssize_t position = 0; PyDict_Next(frame_ops::TypeDict(type), &position, &name, &value) != 0;) {
    if (IsAbstractMethod(value) && PySet_Add(found, name) < 0) return false;
  }
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type->tp_bases); ++i) {
    const Ref of_base = Attribute(PyTuple_GET_ITEM(type->tp_bases, i), "__abstractmethods__");
    const Ref names = of_base ? Ref::Steal(PySequence_List(of_base)) : Ref();
    for (Py_ssize_t n = 0; names && n < PyList_GET_SIZE(names.get()); ++n) {
      const Ref inherited = Ref::Steal(PyObject_GetAttr(cls, PyList_GET_ITEM(names.get(), n)));
      PyErr_Clear();
      if (IsAbstractMethod(inherited) && PySet_Add(found, PyList_GET_ITEM(names.get(), n)) < 0) return false;
    }
  }
  const Ref now = Attribute(cls, "__abstractmethods__");
  return now && PyObject_RichCompareBool(now, found, Py_EQ) == 1;
}

}  // namespace

absl::StatusOr<RecipeId> RecipeBuilder::OfCell(BorrowedRef object) {
  const RecipeId cell = Add(RecipeOp::kCell, {});
  known_[object.get()] = cell;
  if (PyCell_GET(object.get()) == nullptr) return cell;
  unfilled_.push_back(Ref::Create(object));
  if (!making_.empty()) return cell;
  if (absl::Status s = FillCells(); !s.ok()) return s;
  return cell;
}

absl::Status RecipeBuilder::FillCells() {
  while (!unfilled_.empty()) {
    const Ref cell = std::move(unfilled_.back());
    unfilled_.pop_back();
    absl::StatusOr<RecipeId> contents = Of(PyCell_GET(cell.get()));
    if (!contents.ok()) return contents.status();
    Add(RecipeOp::kFillCell, {known_.at(cell.get()), *contents});
  }
  return absl::OkStatus();
}

absl::StatusOr<RecipeId> RecipeBuilder::OfClass(BorrowedRef object) {
  auto* type = reinterpret_cast<PyTypeObject*>(object.get());
  const bool can_be_made = capture_.made().IsRebuildable(object) && KeepsAbstractMethods(object);
  if (!can_be_made || !making_.insert(object.get()).second) return NoRecipeOfClass(object);
  absl::StatusOr<RecipeId> bases = Of(type->tp_bases);
  if (!bases.ok()) return bases.status();
  absl::StatusOr<RecipeId> names = OfNamespace(object);
  if (!names.ok()) return names.status();
  const RecipeId name = Constant(Attribute(object, "__name__"));
  const RecipeId made = Add(RecipeOp::kCall, {name, *bases, *names}, reinterpret_cast<PyObject*>(object.type()));
  known_[object.get()] = made;
  making_.erase(object.get());
  if (!making_.empty()) return made;
  if (absl::Status s = FillCells(); !s.ok()) return s;
  return made;
}

absl::StatusOr<RecipeId> RecipeBuilder::OfNamespace(BorrowedRef cls) {
  const Ref items = Ref::Steal(PyDict_Items(frame_ops::TypeDict(reinterpret_cast<PyTypeObject*>(cls.get()))));
  if (!items) return NoRecipeOfClass(cls);
  std::vector<RecipeId> fill = {Add(RecipeOp::kDict, {}, reinterpret_cast<PyObject*>(&PyDict_Type))};
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(items.get()); ++i) {
    PyObject* key = PyTuple_GET_ITEM(PyList_GET_ITEM(items.get(), i), 0);
    PyObject* value = PyTuple_GET_ITEM(PyList_GET_ITEM(items.get(), i), 1);
    if (!PyUnicode_CheckExact(key)) return NoRecipeOfClass(cls);
    if (IsAddedByMetaclass(cls, key, value)) continue;
    const bool slot =
        Py_IS_TYPE(value, &PyMemberDescr_Type) && PyDescr_TYPE(value) == reinterpret_cast<PyTypeObject*>(cls.get());
    if (slot) return NoRecipeOfClass(cls);
    absl::StatusOr<RecipeId> id = Of(value);
    if (!id.ok()) return id.status();
    fill.push_back(Constant(key));
    fill.push_back(*id);
  }
  fill.push_back(Constant(Ref::Steal(PyUnicode_InternFromString("__qualname__"))));
  fill.push_back(Constant(Attribute(cls, "__qualname__")));
  const RecipeId names = fill.front();
  Add(RecipeOp::kFillDict, std::move(fill));
  return names;
}

absl::StatusOr<RecipeId> RecipeBuilder::OfWrapper(BorrowedRef object) {
  const bool property = Py_IS_TYPE(object.get(), &PyProperty_Type);
  std::vector<RecipeId> parts;
  for (const char* name : {property ? "fget" : "__func__", "fset", "fdel", "__doc__"}) {
    if (!property && !parts.empty()) break;
    const Ref part = Attribute(object, name);
    if (!part) return MakeGraphBreak(GraphBreakKind::kNoRecipe, absl::StrCat("a ", object.type()->tp_name));
    keep_alive_.push_back(part);
    absl::StatusOr<RecipeId> id = Of(part);
    if (!id.ok()) return id.status();
    parts.push_back(*id);
  }
  return Add(RecipeOp::kCall, std::move(parts), reinterpret_cast<PyObject*>(object.type()));
}

RecipeId RecipeBuilder::NumberOrText(BorrowedRef object, RecipeId cls) {
  PyTypeObject* base = NativeBase(object.type());
  PyObject* o = object;
  Ref plain = Ref::Steal(base == &PyLong_Type    ? PyLong_Type.tp_as_number->nb_int(o)
                         : base == &PyFloat_Type ? PyFloat_FromDouble(PyFloat_AS_DOUBLE(o))
                                                 : PyUnicode_FromObject(o));
  const Ref make = Ref::Steal(PyObject_GetAttrString(reinterpret_cast<PyObject*>(base), "__new__"));
  if (!plain || !make) {
    PyErr_Clear();
    return kNoRecipe;
  }
  return Add(RecipeOp::kCall, {cls, Constant(plain)}, make);
}

}  // namespace framefuse
