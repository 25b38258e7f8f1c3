// Recipes of builtin iterators, which say themselves how to be rebuilt: (iter, (underlying,), position).
#include "absl/strings/str_cat.h"
#include "symbolic/capture/capture.h"
#include "symbolic/reconstruct/recipe_builder.h"
#include "symbolic/rules/builtin_types.h"

namespace framefuse {
namespace {

absl::Status NoRecipeOfIterator(BorrowedRef iterator) {
  return MakeGraphBreak(GraphBreakKind::kNoRecipe, absl::StrCat("a ", iterator.type()->tp_name));
}

// The dict that a view's iterator walks, and null once it is at its end.
PyObject* DictOfIterator(PyObject* iterator) {
  PyObject* found = nullptr;
  Py_TYPE(iterator)->tp_traverse(
      iterator,
      [](PyObject* referent, void* out) -> int {
        if (PyDict_Check(referent)) *static_cast<PyObject**>(out) = referent;
        return 0;
      },
      &found);
  return found;
}

// Whether making an iterator over the object anew would call methods of its class a second time.
bool RunsWhenIterated(PyObject* object, PyObject* maker) {
  PyTypeObject* type = Py_TYPE(object);
  if (!IsPythonClass(type) || PyType_Check(object)) return false;
  return type->tp_iter != nullptr || maker == reinterpret_cast<PyObject*>(&PyReversed_Type);
}

const char* ViewOfIterator(PyTypeObject* type) {
  if (type == &PyDictIterKey_Type) return "keys";
  if (type == &PyDictIterValue_Type) return "values";
  return type == &PyDictIterItem_Type ? "items" : nullptr;
}

}  // namespace

// __reduce__ gives the rest as a list, which would not see the dict change.
absl::StatusOr<RecipeId> RecipeBuilder::OfDictIterator(BorrowedRef object, BorrowedRef dict) {
  const Ref rest = Ref::Steal(PyObject_CallMethod(object, "__reduce__", nullptr));  // raises if the dict has changed
  const Py_ssize_t left = rest ? PyObject_LengthHint(object, 0) : -1;
  const Tracked* t = capture_.objects().Find(dict);
  const bool changes = t != nullptr && (t->mutated() || (t->owner != nullptr && t->owner->mutated()));
  if (left < 0 || changes) {
    PyErr_Clear();
    return NoRecipeOfIterator(object);
  }
  absl::StatusOr<RecipeId> of = Of(dict);
  if (!of.ok()) return of.status();
  Ref view = Ref::Steal(PyUnicode_FromString(ViewOfIterator(object.type())));
  return Add(RecipeOp::kDictIterator, {*of}, view, static_cast<std::int32_t>(PyDict_GET_SIZE(dict.get()) - left));
}

absl::StatusOr<RecipeId> RecipeBuilder::OfIterator(BorrowedRef object) {
  if (ViewOfIterator(object.type()) != nullptr) {
    if (PyObject* dict = DictOfIterator(object)) return OfDictIterator(object, dict);
  }
  Ref reduce = Ref::Steal(PyObject_CallMethod(object, "__reduce__", nullptr));
  if (!reduce || !PyTuple_CheckExact(reduce.get())) {
    PyErr_Clear();
    return NoRecipeOfIterator(object);
  }
  keep_alive_.push_back(reduce);
  PyObject* callable = PyTuple_GET_ITEM(reduce.get(), 0);
  PyObject* arguments = PyTuple_GET_ITEM(reduce.get(), 1);
  PyObject** items = &PyTuple_GET_ITEM(arguments, 0);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(arguments); ++i) {
    if (RunsWhenIterated(items[i], callable)) return NoRecipeOfIterator(object);
    // Its position is set before the list has its new contents, and would be cut to the old ones.
    const Tracked* t = capture_.objects().Find(items[i]);
    if (t != nullptr && t->replaced) return NoRecipeOfIterator(object);
  }
  absl::StatusOr<std::vector<RecipeId>> ids =
      OfAll(absl::MakeSpan(items, static_cast<std::size_t>(PyTuple_GET_SIZE(arguments))));
  if (!ids.ok()) return ids.status();
  const RecipeId made = Add(RecipeOp::kCall, *std::move(ids), callable);
  if (PyTuple_GET_SIZE(reduce.get()) > 2 && PyTuple_GET_ITEM(reduce.get(), 2) != Py_None) {
    absl::StatusOr<RecipeId> state = Of(PyTuple_GET_ITEM(reduce.get(), 2));
    if (!state.ok()) return state.status();
    Add(RecipeOp::kSetState, {made, *state});
  }
  return made;
}

}  // namespace framefuse
