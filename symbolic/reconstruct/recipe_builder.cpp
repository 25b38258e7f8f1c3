#include "symbolic/reconstruct/recipe_builder.h"

#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "frame_eval/versions/private_api.h"
#include "guards/immutable.h"
#include "symbolic/capture/capture.h"
#include "symbolic/journals/elements.h"
#include "symbolic/journals/sharded_values.h"
#include "symbolic/messages/code_text.h"
#include "symbolic/rules/builtin_types.h"
#include "symbolic/rules/native_items.h"
#include "symbolic/rules/number_arrays.h"
#include "symbolic/rules/random_methods.h"
#include "symbolic/rules/torch_generators.h"
#include "symbolic/tracing/numbers.h"
#include "symbolic/tracing/sharded_tensors.h"

namespace framefuse {
namespace {

absl::Status NoRecipe(BorrowedRef object) {
  return MakeGraphBreak(GraphBreakKind::kNoRecipe, absl::StrCat("a ", object.type()->tp_name));
}

// The descriptor of this kind, of a class that `type` inherits from, that `bound` was made of; or null.
PyObject* DescriptorIn(PyTypeObject* type, PyObject* name, PyObject* bound, PyTypeObject* kind) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type->tp_mro); ++i) {
    PyObject* cls = PyTuple_GET_ITEM(type->tp_mro, i);
    PyObject* found = PyDict_GetItemWithError(frame_ops::TypeDict(reinterpret_cast<PyTypeObject*>(cls)), name);
    if (found != nullptr && Py_TYPE(found) == kind &&
        reinterpret_cast<PyMethodDescrObject*>(found)->d_method == reinterpret_cast<PyCFunctionObject*>(bound)->m_ml) {
      return found;
    }
  }
  return nullptr;
}

bool IsBuiltinIterator(PyTypeObject* type) {
  return type == &PyListIter_Type || type == &PyTupleIter_Type || type == &PyRangeIter_Type || type == &PyEnum_Type ||
         type == &PyZip_Type || type == &PyMap_Type || type == &PyFilter_Type || type == &PyReversed_Type ||
         type == &PyListRevIter_Type || type == &PyDictIterKey_Type || type == &PyDictIterValue_Type ||
         type == &PyDictIterItem_Type || type == &PyUnicodeIter_Type;
}

// In each call: what it is made of is hashed by value.
bool HashesAlike(BorrowedRef element) {
  if (!PyTuple_CheckExact(element.get())) return IsLeaf(element) || IsImmutableKey(element);
  bool alike = true;
  for (Py_ssize_t i = 0; alike && i < PyTuple_GET_SIZE(element.get()); ++i) {
    alike = HashesAlike(PyTuple_GET_ITEM(element.get(), i));
  }
  return alike;
}

// An object from outside, which is there by itself.
bool IsOneObject(const Tracked* t) {
  return t != nullptr && t->source != kNoSource && t->original == t->representative;
}

// Also where an iterator of C code gave it, without a source.
bool IsClassFromOutside(BorrowedRef object, const MadeClasses& made) {
  return PyType_Check(object.get()) && !made.IsMade(object);
}

using FunctionTexts = std::array<PyObject*, kFunctionTexts.size()>;  // borrowed

FunctionTexts TextsOf(BorrowedRef function) {
  auto* f = reinterpret_cast<PyFunctionObject*>(function.get());
  return {f->func_name, f->func_doc, f->func_module, private_api::TypeParameters(function.get())};
}

constexpr int kMaxDepth = 200;

}  // namespace

RecipeId RecipeBuilder::Add(RecipeOp op, std::vector<RecipeId> children, BorrowedRef object, std::int32_t index) {
  program_.steps_.push_back(RecipeStep{op, index, Held::ForUse(object), std::move(children)});
  return static_cast<RecipeId>(program_.steps_.size()) - 1;
}

RecipeProgram RecipeBuilder::Finish() && { return std::move(program_); }

RecipeId RecipeBuilder::Constant(BorrowedRef object, bool element) {
  const auto it = known_.find(object.get());
  if (it != known_.end()) return it->second;
  const RecipeId id = Add(RecipeOp::kConstant, {}, object);
  program_.steps_.back().object = Held::OfConstant(object, element);
  known_[object.get()] = id;
  keep_alive_.push_back(Ref::Create(object));
  return id;
}

bool RecipeBuilder::Outlives(BorrowedRef object) const {
  return IsLeaf(object) || IsClassFromOutside(object, capture_.made()) || known_.contains(object.get()) ||
         capture_.objects().Find(object) != nullptr;
}

RecipeId RecipeBuilder::FromSource(SourceId source) {
  if (const Source& from = capture_.reads().sources()[source]; from.kind == SourceKind::kConstant) {
    return Constant(from.key, from.index != 0);
  }
  const auto it = by_source_.find(source);
  if (it != by_source_.end()) return it->second;
  used_sources_.push_back(source);
  return by_source_[source] = Add(RecipeOp::kSource, {}, nullptr, source);
}

absl::StatusOr<RecipeId> RecipeBuilder::Of(BorrowedRef object, SourceId source) {
  if (IsLeaf(object)) {
    const bool symbolic = capture_.tracer().numbers().Holds(object);
    if (source == kNoSource || source == kUnadopted) source = capture_.reads().SourceToLoad(object);
    if (symbolic && PyTuple_Check(object.get()) && source == kNoSource) {
      const auto made = known_.find(object.get());
      return made != known_.end() ? made->second : OfTuple(object);
    }
    return source != kNoSource ? FromSource(source) : symbolic ? OfSize(object) : Constant(object);
  }
  const auto it = known_.find(object.get());
  if (it != known_.end()) return it->second;
  if (capture_.objects().IsElementByValue(object)) return Constant(object);
  if (Tracked* t = capture_.objects().Find(object)) {
    SourceId from = t->source;
    if (t->kind == TrackedKind::kInstanceDict) {
      if (!t->original) return OfDictToCome(*t);
      from = capture_.reads().sources().Intern(SourceKind::kInstanceDict, t->owner->source, 0, nullptr);
    }
    if (t->is_empty_array() && from == kNoSource) return arrays_.Of(*this, *t);
    return from == kNoSource ? OfHandle(object) : absl::StatusOr<RecipeId>(FromSource(from));
  }
  if (IsRegularExpression(object)) return Constant(object);  // made here, of a text: re gives it out again and again
  if (tracing::IsShardedFake(object)) return OfSharded(object);
  if (IsFakeTensor(object)) {
    tensors_.push_back(Ref::Create(object));
    const RecipeId made = Add(RecipeOp::kTensor, {}, nullptr, static_cast<std::int32_t>(tensors_.size()) - 1);
    known_[object.get()] = made;
    if (absl::Status s = AddAttributes(object, made); !s.ok()) return s;
    return made;
  }
  if (++depth_ > kMaxDepth) return MakeGraphBreak(GraphBreakKind::kNoRecipe, "a structure nested too deeply");
  keep_alive_.push_back(Ref::Create(object));
  absl::StatusOr<RecipeId> id = OfFresh(object);
  --depth_;
  // A tuple inside of what it holds was made there.
  if (id.ok()) return known_.try_emplace(object.get(), *id).first->second;
  return id;
}

// The __dict__ of an object from outside that keeps its values without one: asking for it makes it.
absl::StatusOr<RecipeId> RecipeBuilder::OfDictToCome(const Tracked& dict) {
  if (dict.owner->source == kNoSource) return NoRecipe(dict.representative);
  const RecipeId owner = FromSource(dict.owner->source);
  return known_[dict.representative.get()] = Add(RecipeOp::kInstanceDict, {owner});
}

// A DTensor that was made here.
absl::StatusOr<RecipeId> RecipeBuilder::OfSharded(BorrowedRef object) {
  const Ref local = tracing::LocalOf(object);
  const Ref spec = Ref::Steal(PyObject_GetAttrString(object, "_spec"));
  if (!spec) PyErr_Clear();
  if (!spec || !tracing::IsWithoutHistory(object)) return NoRecipe(object);
  keep_alive_.push_back(local);
  const absl::StatusOr<RecipeId> inner = Of(local);
  if (!inner.ok()) return inner.status();
  const RecipeId made = Add(RecipeOp::kCall, {*inner, Constant(spec)}, MakerOfSharded());
  known_[object.get()] = made;
  if (absl::Status s = AddAttributes(object, made); !s.ok()) return s;
  return made;
}

int RecipeBuilder::OutputOf(BorrowedRef fake) {
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    if (tensors_[i].get() == fake.get()) return static_cast<int>(i);
  }
  tensors_.push_back(Ref::Create(fake));
  return static_cast<int>(tensors_.size()) - 1;
}

absl::StatusOr<std::vector<RecipeId>> RecipeBuilder::OfAll(absl::Span<PyObject* const> objects) {
  std::vector<RecipeId> ids;
  for (PyObject* o : objects) {
    absl::StatusOr<RecipeId> id = o == nullptr ? kNoRecipe : Of(o);
    if (!id.ok()) return id.status();
    ids.push_back(*id);
  }
  return ids;
}

absl::StatusOr<RecipeId> RecipeBuilder::OfBuiltin(BorrowedRef object) {
  PyObject* self = PyCFunction_GET_SELF(object.get());
  const bool of_class = self != nullptr && PyType_Check(self);
  if (self == nullptr || PyModule_Check(self) || (of_class && !capture_.made().IsMade(self))) return Constant(object);
  absl::StatusOr<RecipeId> owner = Of(self);
  if (!owner.ok()) return owner.status();
  Ref name = Ref::Steal(PyUnicode_InternFromString(reinterpret_cast<PyCFunctionObject*>(object.get())->m_ml->ml_name));
  const auto bound_by = [](PyObject* descriptor) { return Ref::Steal(PyObject_GetAttrString(descriptor, "__get__")); };
  if (of_class) {
    auto* cls = reinterpret_cast<PyTypeObject*>(self);
    PyObject* descriptor = DescriptorIn(cls, name, object, &PyClassMethodDescr_Type);
    if (descriptor == nullptr) return NoRecipe(object);
    return Add(RecipeOp::kCall, {Constant(Py_None), *owner}, bound_by(descriptor).get());
  }
  // Not by its name, which may mean another method by now: super().append is list's, not the object's own.
  if (PyObject* descriptor = DescriptorIn(Py_TYPE(self), name, object, &PyMethodDescr_Type)) {
    // Without the type, one that asks for the class that defines it crashes.
    const RecipeId type = Constant(reinterpret_cast<PyObject*>(Py_TYPE(self)));
    return Add(RecipeOp::kCall, {*owner, type}, bound_by(descriptor).get());
  }
  return Add(RecipeOp::kGetAttr, {*owner}, name);
}

absl::StatusOr<RecipeId> RecipeBuilder::OfPartial(BorrowedRef object) {
  Ref function = Ref::Steal(PyObject_GetAttrString(object, "func"));
  Ref reduce = Ref::Steal(PyObject_CallMethod(object, "__reduce__", nullptr));
  if (!function || !reduce) return NoRecipe(object);
  absl::StatusOr<RecipeId> target = Of(function);
  if (!target.ok()) return target.status();
  keep_alive_.push_back(reduce);
  absl::StatusOr<RecipeId> state = Of(PyTuple_GET_ITEM(reduce.get(), 2));
  if (!state.ok()) return state.status();
  const RecipeId made = Add(RecipeOp::kCall, {*target}, reinterpret_cast<PyObject*>(object.type()));
  Add(RecipeOp::kSetState, {made, *state});
  return made;
}

absl::StatusOr<RecipeId> RecipeBuilder::OfFresh(BorrowedRef object) {
  PyObject* o = object;
  PyTypeObject* type = object.type();
  if (capture_.made().IsMade(object)) return OfClass(object);
  if (PyTuple_Check(o)) return OfTuple(object);
  if (PyList_CheckExact(o)) return OfSequence(object, RecipeOp::kList);
  if (type == DequeType()) return OfSequence(object, RecipeOp::kDeque);
  if (PyDict_CheckExact(o) || PyODict_CheckExact(o) || type == DefaultDictType()) return OfDict(object);
  if (private_api::IsView(o)) {
    absl::StatusOr<RecipeId> viewed = Of(private_api::ViewedBy(o));
    return viewed.ok() ? Add(RecipeOp::kCall, {*viewed}, private_api::MakerOfView(type).get()) : viewed;
  }
  if (PyWeakref_CheckRef(o)) return OfWeakref(object);
  if (PyAnySet_CheckExact(o)) return OfSet(object);
  if (IsArray(object)) return ArrayRecipes::OfOwn(*this, object);
  if (type == &PyFunction_Type) return OfFunction(object);
  if (type == &PyMethod_Type) return OfMethod(object);
  if (PyCFunction_Check(o)) return OfBuiltin(object);
  // Of a class that goes with the attempt.
  if ((PyModule_Check(o) || PyType_Check(o)) && capture_.made().IsMade(object.type())) return NoRecipe(object);
  if (PyModule_Check(o) || PyType_Check(o) || type == &PyMethodDescr_Type || type == &PyWrapperDescr_Type ||
      type == &PyGetSetDescr_Type || type == &PyMemberDescr_Type || PyRange_Check(o) || IsOwnTypeOfNumbers(object)) {
    return Constant(object);
  }
  if (PySlice_Check(o)) {
    auto* s = reinterpret_cast<PySliceObject*>(o);
    PyObject* parts[] = {s->start, s->stop, s->step};
    absl::StatusOr<std::vector<RecipeId>> ids = OfAll(parts);
    return ids.ok() ? absl::StatusOr<RecipeId>(Add(RecipeOp::kSlice, *std::move(ids))) : ids.status();
  }
  if (IsTemplate(object) || IsInterpolation(object)) return OfTemplate(object);
  if (PyCell_Check(o)) return OfCell(object);
  if (type == &PyStaticMethod_Type || type == &PyClassMethod_Type || type == &PyProperty_Type) {
    return OfWrapper(object);
  }
  if (type == PartialType()) return OfPartial(object);
  if (type == &PySuper_Type) {
    Ref cls = Ref::Steal(PyObject_GetAttrString(o, "__thisclass__"));
    Ref self = Ref::Steal(PyObject_GetAttrString(o, "__self__"));
    PyObject* parts[] = {cls, self};
    absl::StatusOr<std::vector<RecipeId>> ids = OfAll(parts);
    if (!ids.ok()) return ids.status();
    return Add(RecipeOp::kCall, *std::move(ids), reinterpret_cast<PyObject*>(type));
  }
  if (IsBuiltinIterator(type)) return OfIterator(object);
  if (PyContextToken_CheckExact(o)) return OfToken(object);
  if (IsTorchGenerator(object)) return Add(RecipeOp::kCall, {}, MakerOfCopies(object).get());
  return OfInstance(object);
}

// A token is what setting the variable gives. What was set before it comes before it, though its token be gone.
absl::StatusOr<RecipeId> RecipeBuilder::OfToken(BorrowedRef object) {
  static PyObject* const setter = PyObject_GetAttrString(reinterpret_cast<PyObject*>(&PyContextVar_Type), "set");
  for (const ContextVariables::Setting& setting : capture_.contexts().SettingsUpTo(object)) {
    if (known_.contains(setting.token.get())) continue;
    absl::StatusOr<RecipeId> value = Of(setting.value);
    if (!value.ok()) return value.status();
    const RecipeId variable = FromSource(setting.variable->source);
    known_[setting.token.get()] = Add(RecipeOp::kCall, {variable, *value}, setter);
  }
  const auto made = known_.find(object.get());
  return made == known_.end() ? NoRecipe(object) : absl::StatusOr<RecipeId>(made->second);
}

absl::StatusOr<RecipeId> RecipeBuilder::OfTuple(BorrowedRef object) {
  PyObject* o = object;
  if (capture_.made().IsMade(object.type())) return NoRecipe(object);
  PyObject** items = &PyTuple_GET_ITEM(o, 0);
  absl::StatusOr<std::vector<RecipeId>> ids =
      OfAll(absl::MakeSpan(items, static_cast<std::size_t>(PyTuple_GET_SIZE(o))));
  if (!ids.ok()) return ids.status();
  if (PyTuple_CheckExact(o)) return Add(RecipeOp::kTuple, *std::move(ids));
  if (IsStructSequenceType(object.type())) {
    return Add(RecipeOp::kCall, {Add(RecipeOp::kTuple, *std::move(ids))}, reinterpret_cast<PyObject*>(object.type()));
  }
  const RecipeId made = Add(RecipeOp::kTupleOf, *std::move(ids), reinterpret_cast<PyObject*>(object.type()));
  known_[o] = made;
  if (absl::Status s = AddAttributes(object, made); !s.ok()) return s;
  return made;
}

// The object exists before its items, so that it may contain itself.
absl::StatusOr<RecipeId> RecipeBuilder::OfSequence(BorrowedRef object, RecipeOp op) {
  Ref items = Ref::Steal(PySequence_List(object));
  if (!items) return NoRecipe(object);
  std::vector<RecipeId> bound;
  if (op == RecipeOp::kDeque) bound.push_back(Constant(Ref::Steal(PyObject_GetAttrString(object, "maxlen"))));
  const RecipeId made = Add(op, std::move(bound), reinterpret_cast<PyObject*>(object.type()));
  known_[object.get()] = made;
  std::vector<RecipeId> fill = {made};
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(items.get()); ++i) {
    absl::StatusOr<RecipeId> id = Of(PyList_GET_ITEM(items.get(), i));
    if (!id.ok()) return id.status();
    fill.push_back(*id);
  }
  if (fill.size() > 1) Add(RecipeOp::kFillList, std::move(fill));
  return made;
}

absl::StatusOr<RecipeId> RecipeBuilder::OfDict(BorrowedRef object) {
  PyObject* o = object;
  if (const BorrowedRef owner = capture_.objects().OwnerOfDict(object)) {
    absl::StatusOr<RecipeId> instance = Of(owner);
    if (!instance.ok()) return instance.status();
    return known_[o] = Add(RecipeOp::kInstanceDict, {*instance});
  }
  const Ref pairs = NativePairs(object);
  if (!pairs) return NoRecipe(object);
  const RecipeId made = Add(RecipeOp::kDict, {}, reinterpret_cast<PyObject*>(object.type()));
  known_[o] = made;
  std::vector<RecipeId> fill = {made};
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(pairs.get()); ++i) {
    PyObject* pair = PyList_GET_ITEM(pairs.get(), i);
    for (int side = 0; side < 2; ++side) {
      PyObject* part = PyTuple_GET_ITEM(pair, side);
      if (side == 0 && !IsLeaf(part) && !PyTuple_CheckExact(part) && !IsFrozensetOfLeaves(part) &&
          !PyWeakref_CheckRefExact(part) && !IsFoundByItself(part) && capture_.objects().Find(part) == nullptr) {
        return NoRecipe(object);  // a key that has a hash of its own
      }
      absl::StatusOr<RecipeId> id = Of(part);
      if (!id.ok()) return id.status();
      fill.push_back(*id);
    }
  }
  if (fill.size() > 1) Add(RecipeOp::kFillDict, std::move(fill));
  if (absl::Status s = AddAttributes(object, made); !s.ok()) return s;
  return made;
}

absl::StatusOr<RecipeId> RecipeBuilder::OfSet(BorrowedRef object) {
  Ref items = Ref::Steal(PySequence_List(object));
  std::vector<RecipeId> ids;
  bool keeps_hashes = true;
  for (Py_ssize_t i = 0; items && i < PyList_GET_SIZE(items.get()); ++i) {
    PyObject* item = PyList_GET_ITEM(items.get(), i);
    absl::StatusOr<RecipeId> id = OfElement(item);
    if (!id.ok()) return id.status();
    ids.push_back(*id);
    const bool same_object = PyWeakref_CheckRefExact(item) || IsOneObject(capture_.objects().Find(item)) ||
                             IsClassFromOutside(item, capture_.made());
    keeps_hashes = keeps_hashes && (same_object || HashesAlike(item));
    // The table that the entry holds keeps no object alive.
    if (same_object && PyList_SetItem(items, i, Py_NewRef(Py_None)) < 0) return NoRecipe(object);
  }
  // Where an address is hashed, the elements are added one by one: the order is of no call but this.
  Ref empty = Ref::Steal(PyObject_CallNoArgs(reinterpret_cast<PyObject*>(object.type())));
  const Ref elements = items ? Ref::Steal(PyList_AsTuple(items)) : Ref();
  if (!elements || !empty) return NoRecipe(object);
  const Ref table = keeps_hashes ? private_api::CopySetLayout(object.get(), elements) : std::move(empty);
  if (!table) return NoRecipe(object);
  return Add(RecipeOp::kSet, std::move(ids), table);
}

absl::StatusOr<RecipeId> RecipeBuilder::OfElement(BorrowedRef element, bool may_be_fresh) {
  // A weak reference hashes as its object, which a guard knows.
  const bool by_value = IsLeaf(element) || PyTuple_CheckExact(element.get()) || IsFrozensetOfLeaves(element) ||
                        IsImmutableKey(element) || PyWeakref_CheckRefExact(element.get());
  if (by_value || (IsClassFromOutside(element, capture_.made()) && IsFoundByItself(element))) return Of(element);
  const Tracked* t = capture_.objects().Find(element);
  if (t == nullptr && may_be_fresh && IsKnownByAddress(element)) return Of(element);
  if (!IsOneObject(t)) return NoRecipe(element);
  if (capture_.reads().sources()[t->source].kind != SourceKind::kConstant) {  // as that object it is hashed alike
    capture_.reads().AddGuard(t->source, GuardKind::kIdentity, t->original);
  }
  return FromSource(t->source);
}

absl::StatusOr<RecipeId> RecipeBuilder::OfFunction(BorrowedRef object) {
  auto* f = reinterpret_cast<PyFunctionObject*>(object.get());
  if (!capture_.objects().IsFreshFunction(object)) {
    if (capture_.made().IsPart(object)) return NoRecipe(object);
    return Constant(object);
  }
  std::vector<RecipeId> children = {Constant(f->func_code), Constant(f->func_globals)};
  PyObject* parts[] = {f->func_defaults, f->func_kwdefaults, f->func_closure, f->func_annotations};
  absl::StatusOr<std::vector<RecipeId>> ids = OfAll(parts);
  if (!ids.ok()) return ids.status();
  children.insert(children.end(), ids->begin(), ids->end());
  children.push_back(Constant(f->func_qualname));
  const Ref plain = Ref::Steal(PyFunction_NewWithQualName(f->func_code, f->func_globals, f->func_qualname));
  if (!plain) return NoRecipe(object);
  const FunctionTexts given = TextsOf(object), usual = TextsOf(plain);
  for (std::size_t i = 0; i < given.size(); ++i) {
    absl::StatusOr<RecipeId> id = given[i] == usual[i] ? kNoRecipe : Of(given[i]);
    if (!id.ok()) return id.status();
    children.push_back(*id);
  }
  PyObject** annotate = private_api::FunctionPart(object, private_api::kAnnotateFlag);
  const bool annotates = annotate != nullptr && *annotate != nullptr && *annotate != Py_None;
  absl::StatusOr<RecipeId> annotates_by = annotates ? Of(*annotate) : kNoRecipe;
  if (!annotates_by.ok()) return annotates_by.status();
  children.push_back(*annotates_by);
  const RecipeId made = Add(RecipeOp::kFunction, std::move(children));
  if (absl::Status s = AddAttributes(object, made); !s.ok()) return s;
  return made;
}

absl::StatusOr<RecipeId> RecipeBuilder::OfMethod(BorrowedRef object) {
  PyObject* parts[] = {PyMethod_GET_FUNCTION(object.get()), PyMethod_GET_SELF(object.get())};
  absl::StatusOr<std::vector<RecipeId>> ids = OfAll(parts);
  if (!ids.ok()) return ids.status();
  return Add(RecipeOp::kMethod, *std::move(ids));
}

absl::StatusOr<RecipeId> RecipeBuilder::OfInstance(BorrowedRef object) {
  PyTypeObject* type = object.type();
  PyObject* o = object;
  const bool is_namespace = type == SimpleNamespaceType();
  if ((!IsPythonClass(type) && !is_namespace) || type->tp_finalize != nullptr || type->tp_del != nullptr) {
    return NoRecipe(object);
  }
  if (KindOfGenerator(type) != GeneratorKind::kNone) return NoRecipe(object);  // it has drawn
  PyTypeObject* base = NativeBase(type);
  if (base != &PyBaseObject_Type && base != &PyDict_Type && base != &PyList_Type && base != &PyODict_Type &&
      base != DefaultDictType() && base != SimpleNamespaceType() && !IsNumberOrTextClass(type)) {
    return NoRecipe(object);
  }
  auto* cls = reinterpret_cast<PyObject*>(type);
  std::vector<RecipeId> of_class;
  if (capture_.made().IsMade(type)) {
    FF_ASSIGN_OR_RETURN(const RecipeId id, Of(cls));
    if (const auto it = known_.find(o); it != known_.end()) return it->second;  // a cell of the class's held it
    of_class.push_back(id);
  }
  const BorrowedRef constant = of_class.empty() ? cls : nullptr;
  const RecipeId made = IsNumberOrTextClass(type) ? NumberOrText(object, of_class.empty() ? Constant(cls) : of_class[0])
                                                  : Add(RecipeOp::kInstance, std::move(of_class), constant);
  if (made == kNoRecipe) return NoRecipe(object);
  known_[o] = made;
  if (base == &PyList_Type || PyDict_Check(o)) {
    const Ref contents = base == &PyList_Type ? NativeItems(object) : NativePairs(object);
    if (!contents) return NoRecipe(object);
    std::vector<RecipeId> fill = {made};
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(contents.get()); ++i) {
      PyObject* item = PyList_GET_ITEM(contents.get(), i);
      PyObject* parts[] = {base == &PyList_Type ? item : PyTuple_GET_ITEM(item, 0),
                           base == &PyList_Type ? item : PyTuple_GET_ITEM(item, 1)};
      FF_ASSIGN_OR_RETURN(const std::vector<RecipeId> ids, OfAll(absl::MakeSpan(parts, base == &PyList_Type ? 1 : 2)));
      fill.insert(fill.end(), ids.begin(), ids.end());
    }
    Add(base == &PyList_Type ? RecipeOp::kFillList : RecipeOp::kFillDict, std::move(fill));
  }
  // Own attributes in order, then slots of every class in the MRO. Reading a fresh object's __dict__ is free.
  if (absl::Status s = AddAttributes(object, made); !s.ok()) return s;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type->tp_mro); ++i) {
    auto* cls = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(type->tp_mro, i));
    PyObject *key, *value;
    Py_ssize_t position = 0;
    while (IsPythonClass(cls) && PyDict_Next(frame_ops::TypeDict(cls), &position, &key, &value)) {
      if (Py_TYPE(value) != &PyMemberDescr_Type) continue;
      Ref held = Ref::Steal(PyMemberDescr_Type.tp_descr_get(value, o, reinterpret_cast<PyObject*>(type)));
      if (!held) PyErr_Clear();
      if (!held) continue;
      FF_ASSIGN_OR_RETURN(const RecipeId id, Of(held));
      Add(RecipeOp::kSetAttr, {made, id}, value);
    }
  }
  return made;
}

}  // namespace framefuse
