#include "symbolic/rules/tensor_types.h"

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "frame_eval/import_module.h"
#include "guards/immutable.h"
#include "symbolic/rules/leaf_types.h"

namespace framefuse {
namespace {

PyTypeObject* TorchType(const char* module, const char* name) {
  Ref m = ImportModule(module);
  PyObject* type = m ? PyObject_GetAttrString(m, name) : nullptr;
  if (type == nullptr) PyErr_Clear();
  return reinterpret_cast<PyTypeObject*>(type);
}

PyTypeObject* TensorBase() {
  static PyTypeObject* type = TorchType("torch._C", "TensorBase");
  return type;
}

bool HasHashOf(PyTypeObject* type, PyTypeObject* other) {
  const Ref own = Ref::Steal(PyObject_GetAttrString(reinterpret_cast<PyObject*>(type), "__hash__"));
  const Ref its = Ref::Steal(PyObject_GetAttrString(reinterpret_cast<PyObject*>(other), "__hash__"));
  PyErr_Clear();
  return own && own.get() == its.get();
}

}  // namespace

bool IsTensorType(BorrowedRef object) {
  return PyType_Check(object.get()) && PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(object.get()), TensorBase());
}

bool IsLegacyTensorType(BorrowedRef object) {
  static PyTypeObject* const long_tensor = TorchType("torch", "LongTensor");
  static PyTypeObject* const variable = TorchType("torch.autograd", "Variable");
  return Py_TYPE(object.get()) == Py_TYPE(long_tensor) || object.get() == reinterpret_cast<PyObject*>(variable);
}

bool IsTensorByAddress(BorrowedRef object) {
  static PyTypeObject* const tensor = TorchType("torch", "Tensor");
  return IsTensor(object) && HasHashOf(object.type(), tensor);
}

bool IsParameter(BorrowedRef object) {
  static PyTypeObject* type = TorchType("torch.nn.parameter", "Parameter");
  return object.type() == type;
}

bool IsTorchOperator(PyTypeObject* type) {
  static PyTypeObject* const overload = TorchType("torch._ops", "OpOverload");
  static PyTypeObject* const packet = TorchType("torch._ops", "OpOverloadPacket");
  return type == overload || type == packet;
}

bool IsOperatorNamespace(PyTypeObject* type) {
  static PyTypeObject* const types[] = {TorchType("torch._ops", "_Ops"), TorchType("torch._ops", "_OpNamespace")};
  return type == types[0] || type == types[1];
}

GuardedAttribute GuardedTensorAttribute(std::string_view name) {
  static const auto* table = new absl::flat_hash_map<std::string_view, GuardedAttribute>{
#define FF_GUARDED(attribute) {attribute, GuardedAttribute::kYes},
#define FF_GUARDED_IF_NONE(attribute) {attribute, GuardedAttribute::kIfNone},
#define FF_ASKS_LEAF(name)
#include "symbolic/rules/tensor_attributes.def"
#undef FF_GUARDED
#undef FF_GUARDED_IF_NONE
#undef FF_ASKS_LEAF
  };
  const auto found = table->find(name);
  return found == table->end() ? GuardedAttribute::kNo : found->second;
}

bool LeavesDecide(std::string_view name) {
  static const auto* names = new absl::flat_hash_set<std::string_view>{
#define FF_GUARDED(attribute)
#define FF_GUARDED_IF_NONE(attribute)
#define FF_ASKS_LEAF(name) name,
#include "symbolic/rules/tensor_attributes.def"
#undef FF_GUARDED
#undef FF_GUARDED_IF_NONE
#undef FF_ASKS_LEAF
  };
  return names->contains(name);
}

// Enumerations of torch's that are written in C++: hash and equality are the number's.
constexpr std::pair<const char*, const char*> kEnumerations[] = {
    {"torch._C", "_SDPBackend"},  {"torch._C", "_BlasBackend"}, {"torch._C", "_LinalgBackend"},
    {"torch._C", "_ScalingType"}, {"torch._C", "_SwizzleType"}, {"torch._C", "Tag"},
    {"torch._C", "DispatchKey"},
};

void RegisterTorchLeafTypes() {
  IsTorchOperator(nullptr);
  IsOperatorNamespace(nullptr);
  IsLegacyTensorType(Py_None);
  for (const char* name : {"dtype", "device", "layout", "memory_format", "Size"}) {
    if (PyTypeObject* type = TorchType("torch", name)) AddLeafType(type);
  }
  for (const auto& [module, name] : kEnumerations) {
    PyTypeObject* type = TorchType(module, name);
    if (type == nullptr) continue;
    AddLeafType(type);
    AddComparedType(type);
  }
}

}  // namespace framefuse
