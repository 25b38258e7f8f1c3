// RecipeProgram: the steps, run with the values of one call.
#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "frame_eval/hook.h"
#include "frame_eval/versions/frame_ops.h"
#include "frame_eval/versions/private_api.h"
#include "symbolic/entry/recipe.h"
#include "symbolic/messages/code_text.h"
#include "symbolic/rules/builtin_types.h"
#include "symbolic/rules/native_items.h"

namespace framefuse {
namespace {

// Of the children from `first` on.
Ref MakeTuple(const RecipeStep& step, const std::vector<Ref>& r, PyTypeObject* type, std::size_t first = 0) {
  const auto size = static_cast<Py_ssize_t>(step.children.size() - first);
  Ref tuple = private_api::NewTuple(type, size);
  for (Py_ssize_t i = 0; tuple && i < size; ++i) {
    const RecipeId child = step.children[first + static_cast<std::size_t>(i)];
    PyTuple_SET_ITEM(tuple.get(), i, Py_NewRef(r[static_cast<std::size_t>(child)].get()));
  }
  return tuple;
}

Ref MakeInstance(PyTypeObject* type) {
  // object.__new__ refuses abstract classes; the attempt made one, so this one can be made too.
  return NativeBase(type) == &PyBaseObject_Type ? Ref::Steal(type->tp_alloc(type, 0)) : EmptyOfClass(type);
}

Ref MakeFunction(const RecipeStep& step, const std::vector<Ref>& r) {
  const auto child = [&](std::size_t i) -> PyObject* {
    return step.children[i] == kNoRecipe ? nullptr : r[static_cast<std::size_t>(step.children[i])].get();
  };
  Ref function = Ref::Steal(PyFunction_NewWithQualName(child(0), child(1), child(6)));
  if (!function) return function;
  bool done = true;
  if (child(2) != nullptr) done = done && PyFunction_SetDefaults(function, child(2)) == 0;
  if (child(3) != nullptr) done = done && PyFunction_SetKwDefaults(function, child(3)) == 0;
  if (child(4) != nullptr) done = done && PyFunction_SetClosure(function, child(4)) == 0;
  if (child(5) != nullptr) {
    reinterpret_cast<PyFunctionObject*>(function.get())->func_annotations = Py_NewRef(child(5));
  }
  for (std::size_t i = 0; done && i < kFunctionTexts.size(); ++i) {
    PyObject* text = child(7 + i);
    done = text == nullptr || PyObject_SetAttrString(function, kFunctionTexts[i], text) == 0;
  }
  if (PyObject* annotate = child(7 + kFunctionTexts.size())) {
    Py_XSETREF(*private_api::FunctionPart(function, private_api::kAnnotateFlag), Py_NewRef(annotate));
  }
  return done ? function : Ref();
}

bool Fill(const RecipeStep& step, const std::vector<Ref>& r) {
  const auto child = [&](std::size_t i) -> PyObject* { return r[static_cast<std::size_t>(step.children[i])].get(); };
  PyObject* target = child(0);
  PyObject* object = step.object.get().get();
  switch (step.op) {
    case RecipeOp::kFillList:
      if (!PyList_Check(target)) {  // extend() lays a deque out as its constructor does
        const Ref items = MakeTuple(step, r, &PyTuple_Type, 1);
        const Ref done = items ? CallMethodWith(target, "extend", items) : Ref();
        if (!done) return false;
        return true;
      }
      for (std::size_t i = 1; i < step.children.size(); ++i) {
        if (PyList_Append(target, child(i)) < 0) return false;
      }
      return true;
    case RecipeOp::kFillDict:
      for (std::size_t i = 1; i + 1 < step.children.size(); i += 2) {
        if (!SetNativeItem(target, child(i), child(i + 1))) return false;
      }
      return true;
    case RecipeOp::kFillCell:
      return PyCell_Set(target, child(1)) == 0;
    case RecipeOp::kSetAttr:
      if (Py_TYPE(object) == &PyMemberDescr_Type) {
        return PyMemberDescr_Type.tp_descr_set(object, target, child(1)) == 0;
      }
      return frame_ops::SetRawInstanceAttr(target, object, child(1));
    case RecipeOp::kSetState: {
      const Ref done = CallMethodWith(target, "__setstate__", child(1));
      return static_cast<bool>(done);
    }
    default:
      FF_CHECK(false) << "step " << static_cast<int>(step.op) << " fills nothing";
      return false;
  }
}

Ref MakeDictIterator(PyObject* dict, PyObject* view_name, int passed) {
  const Ref view = Ref::Steal(PyObject_CallMethodNoArgs(dict, view_name));
  Ref iterator = view ? Ref::Steal(PyObject_GetIter(view)) : Ref();
  for (int i = 0; iterator && i < passed; ++i) Ref::Steal(PyIter_Next(iterator));
  return iterator;
}

Ref Call(const RecipeStep& step, BorrowedRef callable, const std::vector<Ref>& r) {
  const Ref arguments = MakeTuple(step, r, &PyTuple_Type);
  return arguments ? Ref::Steal(PyObject_CallObject(callable, arguments)) : Ref();
}

// What the step makes out of its children in `r`; None for one that fills what is there.
Ref Make(const RecipeStep& step, BorrowedRef object, const std::vector<Ref>& r) {
  const auto child = [&](std::size_t k) -> PyObject* { return r[static_cast<std::size_t>(step.children[k])].get(); };
  auto* type = reinterpret_cast<PyTypeObject*>(object.get());
  switch (step.op) {
    case RecipeOp::kConstant:
      return Ref::Create(object);
    case RecipeOp::kTuple:
      return MakeTuple(step, r, &PyTuple_Type);
    case RecipeOp::kTupleOf:
      return MakeTuple(step, r, type);
    case RecipeOp::kList:
      return Ref::Steal(PyList_New(0));
    case RecipeOp::kDict:
      return Ref::Steal(PyObject_CallNoArgs(object));
    case RecipeOp::kDeque: {
      const Ref nothing = Ref::Steal(PyTuple_New(0));
      return nothing ? Ref::Steal(PyObject_CallFunctionObjArgs(object, nothing.get(), child(0), nullptr)) : Ref();
    }
    case RecipeOp::kSet: {
      const Ref items = MakeTuple(step, r, &PyTuple_Type);
      if (!items) return Ref();
      const Py_ssize_t size = PySet_GET_SIZE(object.get());
      const bool has_table = size == PyTuple_GET_SIZE(items.get()) && (size > 0 || PySet_CheckExact(object.get()));
      return has_table ? private_api::CopySetLayout(object.get(), items)
                       : Ref::Steal(PyObject_CallOneArg(reinterpret_cast<PyObject*>(object.type()), items));
    }
    case RecipeOp::kSlice:
      return Ref::Steal(PySlice_New(child(0), child(1), child(2)));
    case RecipeOp::kCell:
      return Ref::Steal(PyCell_New(nullptr));
    case RecipeOp::kInstance:
      return MakeInstance(step.children.empty() ? type : reinterpret_cast<PyTypeObject*>(child(0)));
    case RecipeOp::kFunction:
      return MakeFunction(step, r);
    case RecipeOp::kMethod:
      return Ref::Steal(PyMethod_New(child(0), child(1)));
    case RecipeOp::kGetAttr:
      return Ref::Steal(PyObject_GetAttr(child(0), object));
    case RecipeOp::kInstanceDict:
      return Ref::Steal(PyObject_GenericGetDict(child(0), nullptr));
    case RecipeOp::kDictIterator:
      return MakeDictIterator(child(0), object, step.index);
    case RecipeOp::kCall:
      return Call(step, object, r);
    case RecipeOp::kNumpy: {
      const HookScope own(HookMode::kOff);  // frames of numpy's
      return Call(step, object, r);
    }
    case RecipeOp::kSource:
    case RecipeOp::kTensor:
    case RecipeOp::kSize:
    case RecipeOp::kFillList:
    case RecipeOp::kFillDict:
    case RecipeOp::kFillCell:
    case RecipeOp::kSetAttr:
    case RecipeOp::kSetState:
      break;
  }
  return Fill(step, r) ? Ref::Create(Py_None) : Ref();
}

}  // namespace

void RecipeProgram::Load(const ResolvedSources& sources, std::vector<Ref>* registers) const {
  registers->resize(steps_.size());
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    if (steps_[i].op == RecipeOp::kSource) (*registers)[i] = Ref::Create(sources.objects[steps_[i].index]);
  }
}

bool RecipeProgram::Run(absl::Span<const Ref> tensors, const SizeValues& sizes, std::vector<Ref>* registers) const {
  std::vector<Ref>& r = *registers;
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    const RecipeStep& step = steps_[i];
    const BorrowedRef object = step.object.get();
    if (!object && !step.object.empty()) {
      PyErr_SetString(PyExc_SystemError, "a class that an entry makes instances of is gone");
      return false;
    }
    if (step.op == RecipeOp::kTensor) {
      r[i] = tensors[static_cast<std::size_t>(step.index)];
    } else if (step.op == RecipeOp::kSize) {
      r[i] = sizes.ObjectOf(step.index);
    } else if (step.op != RecipeOp::kSource) {  // those are loaded
      r[i] = Make(step, object, r);
    }
    if (!r[i]) return false;
  }
  return true;
}

}  // namespace framefuse
