#include "symbolic/rules/scripted_functions.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <string>
#include <string_view>

#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "absl/strings/str_split.h"
#include "frame_eval/import_module.h"
#include "symbolic/messages/code_text.h"

namespace framefuse {
namespace {

std::size_t At(Py_ssize_t i) { return static_cast<std::size_t>(i); }

Ref OfTorch(const char* module, const char* name) {
  const Ref m = ImportModule(module);
  Ref found = m ? Ref::Steal(PyObject_GetAttrString(m, name)) : Ref();
  if (!found) PyErr_Clear();
  return found;
}

using Kinds = absl::flat_hash_set<std::string>;

// Operators that a recorder sees; those of a script's language are not the dispatcher's.
bool IsRecorded(const std::string& kind) {
  static const auto* const names = [] {
    auto* found = new Kinds;
    for (const c10::OperatorName& name : c10::Dispatcher::singleton().getAllOpNames()) found->insert(name.name);
    return found;
  }();
  return names->contains(kind);
}

// Recorded, or plain: nothing is set and nothing read but numbers, texts and lists. What sets a tensor's state beside
// its values is neither: a graph for an FX backend would have the call, and not what it set.
bool IsPlain(const std::string& kind) {
  static const auto* const states =
      new Kinds{"aten::set_data", "aten::requires_grad_", "aten::retain_grad", "aten::_backward", "aten::detach_"};
  static const auto* const language = new Kinds(
      absl::StrSplit("aten::Bool aten::BoolImplicit aten::Float aten::FloatImplicit aten::Int aten::IntImplicit "
                     "aten::ScalarImplicit aten::__contains__ aten::__derive_index aten::__getitem__ "
                     "aten::__is__ aten::__isnot__ aten::__not__ aten::__range_length aten::_set_item "
                     "aten::_unwrap_optional aten::append aten::copy aten::device aten::divmod aten::extend "
                     "aten::fabs aten::floordiv aten::format aten::insert aten::is_grad_enabled "
                     "aten::is_scripting aten::len aten::list aten::pop aten::reverse aten::tensor "
                     "prim::Constant prim::If prim::ListConstruct prim::ListUnpack prim::Loop "
                     "prim::NumToTensor prim::RaiseException prim::TupleConstruct prim::TupleIndex "
                     "prim::TupleSlice prim::TupleUnpack prim::Uninitialized prim::abs prim::device "
                     "prim::dtype prim::is_cuda prim::isinstance prim::layout prim::max prim::min "
                     "prim::requires_grad prim::shape prim::unchecked_cast",
                     ' '));
  if (language->contains(kind)) return true;
  return kind.starts_with("aten::") && IsRecorded(kind) && !states->contains(kind);
}

// Calls `visit` for every node of the block and of the blocks in it, while it is true; false with or without an error.
bool ForEachNode(BorrowedRef block, absl::FunctionRef<bool(PyObject*, std::string_view)> visit) {
  const Ref nodes = Ref::Steal(PyObject_CallMethod(block.get(), "nodes", nullptr));
  const Ref all = nodes ? Ref::Steal(PySequence_List(nodes)) : Ref();
  for (Py_ssize_t i = 0; all && i < PyList_GET_SIZE(all.get()); ++i) {
    PyObject* node = PyList_GET_ITEM(all.get(), i);
    const Ref kind = Ref::Steal(PyObject_CallMethod(node, "kind", nullptr));
    if (!kind || !PyUnicode_Check(kind.get()) || !visit(node, Utf8(kind))) return false;
    const Ref inner = Ref::Steal(PyObject_CallMethod(node, "blocks", nullptr));
    const Ref blocks = inner ? Ref::Steal(PySequence_List(inner)) : Ref();
    if (!blocks) return false;
    for (Py_ssize_t b = 0; b < PyList_GET_SIZE(blocks.get()); ++b) {
      if (!ForEachNode(PyList_GET_ITEM(blocks.get(), b), visit)) return false;
    }
  }
  return static_cast<bool>(all);
}

// A call of a method of torch's; null with an error.
template <typename... Refs>
Ref Ask(BorrowedRef object, const char* method, const Refs&... arguments) {
  const Ref name = Ref::Steal(PyUnicode_InternFromString(method));
  return Ref::Steal(PyObject_CallMethodObjArgs(object.get(), name.get(), arguments.get()..., nullptr));
}

template <typename... Refs>
bool Do(BorrowedRef object, const char* method, const Refs&... arguments) {
  const Ref done = Ask(object, method, arguments...);
  return static_cast<bool>(done);
}

// A node of one result, put before or after another.
Ref NewNode(BorrowedRef graph, const char* kind, const Ref& inputs, const char* put, BorrowedRef there) {
  Ref node = Ref::Steal(PyObject_CallMethod(graph.get(), "create", "sOi", kind, inputs.get(), 1));
  return node && Do(node, put, there) ? std::move(node) : Ref();
}

bool SetToNone(const Ref& value) {
  static const Ref* const type = new Ref(OfTorch("torch._C", "NoneType"));
  const Ref none = Ask(*type, "get");
  return none && Do(value, "setType", none);
}

// torch.tensor(2.0) in Python ends with lift_fresh, by which a recorder learns of it, and what dtype and device it is
// to have it gets then. In a script it is made and converted in one: here it is made, lifted and converted.
bool LiftNewTensor(BorrowedRef graph, const Ref& node) {
  const Ref inputs = Ask(node, "inputs");
  const Ref all = inputs ? Ref::Steal(PySequence_List(inputs)) : Ref();
  if (!all || PyList_GET_SIZE(all.get()) != 4) return false;  // the data, dtype, device, requires_grad
  const Ref no_grad = Ref::Create(PyList_GET_ITEM(all.get(), 3));
  const Ref value = Ask(no_grad, "toIValue");
  if (!value || value.get() != Py_False) return false;
  const Ref made = Ask(node, "output");
  const Ref nothing = Ref::Steal(PyList_New(0));
  const Ref none = NewNode(graph, "prim::Constant", nothing, "insertBefore", node);
  const Ref no_value = none ? Ask(none, "output") : Ref();
  const Ref of_made = Ref::Steal(Py_BuildValue("[O]", made.get()));
  const Ref lift = NewNode(graph, "aten::lift_fresh", of_made, "insertAfter", node);
  const Ref lifted = lift ? Ask(lift, "output") : Ref();
  if (!no_value || !SetToNone(no_value) || !lifted) return false;
  const Ref of_lifted = Ref::Steal(Py_BuildValue("[OOOOO]", lifted.get(), PyList_GET_ITEM(all.get(), 2),
                                                 PyList_GET_ITEM(all.get(), 1), no_grad.get(), no_grad.get()));
  const Ref convert = NewNode(graph, "aten::to", of_lifted, "insertAfter", lift);
  const Ref converted = convert ? Ask(convert, "output") : Ref();
  if (!converted || !Do(made, "replaceAllUsesAfterNodeWith", convert, converted)) return false;
  for (const int place : {1, 2}) {
    const Ref index = Ref::Steal(PyLong_FromLong(place));
    if (!Do(node, "replaceInput", index, no_value)) return false;
  }
  return true;
}

bool LiftNewTensors(BorrowedRef graph) {
  return ForEachNode(graph, [&](PyObject* node, std::string_view kind) {
    return kind != "aten::tensor" || LiftNewTensor(graph, Ref::Create(node));
  });
}

}  // namespace

bool IsScriptFunction(PyTypeObject* type) {
  static const Ref* const known = new Ref(OfTorch("torch.jit", "ScriptFunction"));
  return reinterpret_cast<PyObject*>(type) == known->get();
}

bool OnlyComputes(BorrowedRef script_function) {
  const Ref graph = Ref::Steal(PyObject_GetAttrString(script_function.get(), "inlined_graph"));
  const bool plain =
      graph && ForEachNode(graph, [](PyObject*, std::string_view kind) { return IsPlain(std::string(kind)); });
  PyErr_Clear();
  return plain;
}

Ref CopyAsWritten(BorrowedRef script_function) {
  static const Ref* const create = new Ref(OfTorch("torch._C", "_create_function_from_graph"));
  const Ref name = Ref::Steal(PyObject_GetAttrString(script_function.get(), "name"));
  const Ref graph = name ? Ref::Steal(PyObject_GetAttrString(script_function.get(), "inlined_graph")) : Ref();
  if (!graph || !*create || !LiftNewTensors(graph)) return Ref();
  return Ref::Steal(PyObject_CallFunctionObjArgs(*create, name.get(), graph.get(), nullptr));
}

bool ScriptedCall::AddDefaults(BorrowedRef script_function) {
  const Ref schema = Ref::Steal(PyObject_GetAttrString(script_function.get(), "schema"));
  const Ref list = schema ? Ref::Steal(PyObject_GetAttrString(schema, "arguments")) : Ref();
  const Ref arguments = list ? Ref::Steal(PySequence_Tuple(list)) : Ref();
  const Ref names = Ref::Steal(kwnames ? PySequence_List(kwnames) : PyList_New(0));
  if (!arguments || !names) return false;
  for (std::size_t i = PositionalCount(args, kwnames); i < At(PyTuple_GET_SIZE(arguments.get())); ++i) {
    PyObject* argument = PyTuple_GET_ITEM(arguments.get(), static_cast<Py_ssize_t>(i));
    const Ref name = Ref::Steal(PyObject_GetAttrString(argument, "name"));
    const Ref has = name ? Ref::Steal(PyObject_CallMethod(argument, "has_default_value", nullptr)) : Ref();
    const int given = has ? PySequence_Contains(names, name) : -1;
    if (given < 0) return false;
    if (given == 1 || has.get() != Py_True) continue;  // torch says what is missing
    Ref value = Ref::Steal(PyObject_GetAttrString(argument, "default_value"));
    if (!value || PyList_Append(names, name) != 0) return false;
    defaults.push_back(std::move(value));
  }
  for (const Ref& value : defaults) args.emplace_back(value, kNoSource);
  if (!defaults.empty()) kwnames = Ref::Steal(PyList_AsTuple(names));
  return defaults.empty() || kwnames;
}

}  // namespace framefuse
