#include "symbolic/capture/scripted_functions.h"

#include <string_view>

#include "absl/container/flat_hash_set.h"
#include "symbolic/capture/code_text.h"

namespace framefuse {
namespace {

std::size_t At(Py_ssize_t i) { return static_cast<std::size_t>(i); }

Ref OfTorch(const char* module, const char* name) {
  const Ref m = Ref::Steal(PyImport_ImportModule(module));
  Ref found = m ? Ref::Steal(PyObject_GetAttrString(m, name)) : Ref();
  if (!found) PyErr_Clear();
  return found;
}

// Operators of torch with an effect that no recorder sees are none of these; of the language's own, these are plain.
bool IsPlain(std::string_view kind) {
  static const auto* effects = new absl::flat_hash_set<std::string_view>{
      "aten::warn", "aten::manual_seed", "aten::seed", "aten::save", "aten::set_grad_enabled", "aten::backward",
      "aten::wait", "aten::set_data"};
  static const auto* language = new absl::flat_hash_set<std::string_view>{
      "prim::Constant",    "prim::If",          "prim::Loop",         "prim::ListConstruct", "prim::ListUnpack",
      "prim::TupleIndex",  "prim::TupleSlice",  "prim::TupleUnpack",  "prim::TupleConstruct", "prim::unchecked_cast",
      "prim::dtype",       "prim::device",      "prim::layout",       "prim::requires_grad",  "prim::is_cuda",
      "prim::max",         "prim::min",         "prim::abs",          "prim::NumToTensor",    "prim::Uninitialized",
      "prim::shape",       "prim::isinstance",  "prim::RaiseException"};
  if (kind.starts_with("aten::")) return !effects->contains(kind);
  return language->contains(kind);
}

// False without an error: not plain. Every node of the block, and of the blocks in it.
bool IsPlainBlock(BorrowedRef block) {
  const Ref nodes = Ref::Steal(PyObject_CallMethod(block.get(), "nodes", nullptr));
  const Ref all = nodes ? Ref::Steal(PySequence_List(nodes)) : Ref();
  for (Py_ssize_t i = 0; all && i < PyList_GET_SIZE(all.get()); ++i) {
    PyObject* node = PyList_GET_ITEM(all.get(), i);
    const Ref kind = Ref::Steal(PyObject_CallMethod(node, "kind", nullptr));
    const Ref inner = kind ? Ref::Steal(PyObject_CallMethod(node, "blocks", nullptr)) : Ref();
    const Ref blocks = inner ? Ref::Steal(PySequence_List(inner)) : Ref();
    if (!blocks || !PyUnicode_Check(kind.get()) || !IsPlain(Utf8(kind))) return false;
    for (Py_ssize_t b = 0; b < PyList_GET_SIZE(blocks.get()); ++b) {
      if (!IsPlainBlock(PyList_GET_ITEM(blocks.get(), b))) return false;
    }
  }
  return static_cast<bool>(all);
}

}  // namespace

bool IsScriptFunction(PyTypeObject* type) {
  static const Ref* const known = new Ref(OfTorch("torch.jit", "ScriptFunction"));
  return reinterpret_cast<PyObject*>(type) == known->get();
}

bool OnlyComputes(BorrowedRef script_function) {
  const Ref graph = Ref::Steal(PyObject_GetAttrString(script_function.get(), "inlined_graph"));
  const bool plain = graph && IsPlainBlock(graph);
  PyErr_Clear();
  return plain;
}

Ref CopyAsWritten(BorrowedRef script_function) {
  static const Ref* const create = new Ref(OfTorch("torch._C", "_create_function_from_graph"));
  const Ref name = Ref::Steal(PyObject_GetAttrString(script_function.get(), "name"));
  const Ref graph = name ? Ref::Steal(PyObject_GetAttrString(script_function.get(), "inlined_graph")) : Ref();
  if (!graph || !*create) return Ref();
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
