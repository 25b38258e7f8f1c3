#include "symbolic/journals/sharded_values.h"

#include <vector>

#include "absl/algorithm/container.h"
#include "frame_eval/hook.h"
#include "frame_eval/import_module.h"
#include "guards/immutable.h"
#include "symbolic/ambient/shown_warnings.h"
#include "symbolic/journals/read_journal.h"
#include "symbolic/journals/tracked.h"
#include "symbolic/rules/call_rules.h"
#include "symbolic/tracing/sharded_tensors.h"
#include "symbolic/tracing/tracer.h"

namespace framefuse {
namespace {

// Of framefuse._sharded; kept for ever.
struct Known {
  PyTypeObject* mesh = nullptr;
  PyObject* entrance = nullptr;
  PyObject* waits = nullptr;
  PyObject* wraps = nullptr;    // code
  PyObject* outside = nullptr;  // code
  PyObject* why_not = nullptr;
  PyObject* maker = nullptr;
  PyObject* of_mesh = nullptr;    // code
  PyObject* of_random = nullptr;  // code
  PyObject* of_mask = nullptr;    // code
  PyObject* of_loss = nullptr;    // code
  PyObject* dispatcher = nullptr;
  PyObject* dispatch = nullptr;  // a frozenset of codes
  std::vector<PyObject*> functions;
  PyObject* fields = nullptr;  // a tuple of names
};

const Known* known = nullptr;

std::string_view FileOf(PyCodeObject* code) {
  Py_ssize_t size = 0;
  const char* text = PyUnicode_AsUTF8AndSize(code->co_filename, &size);
  if (text == nullptr) PyErr_Clear();
  return text == nullptr ? std::string_view() : std::string_view(text, static_cast<std::size_t>(size));
}

bool IsImported() {
  static PyObject* const name = PyUnicode_InternFromString("torch.distributed.tensor");
  PyObject* module = PyDict_GetItemWithError(PyImport_GetModuleDict(), name);
  return module != nullptr && PyModule_Check(module) &&
         PyDict_GetItemString(PyModule_GetDict(module), "distribute_module") != nullptr;
}

const Known* Learn() {
  const HookScope native(HookMode::kOff);
  const Ref module = ImportModule("framefuse._sharded");
  const auto get = [&](const char* name) { return Ref::Steal(PyObject_GetAttrString(module, name)); };
  const Ref type = module ? get("DTensor") : Ref();
  if (!type) {  // a torch whose DTensor is another one
    PyErr_Clear();
    return nullptr;
  }
  auto* found = new Known();
  found->mesh = reinterpret_cast<PyTypeObject*>(get("MESH").release());
  found->entrance = get("Entrance").release();
  found->waits = get("WAITS").release();
  const auto code_of = [&](const char* name) { return Py_NewRef(PyFunction_GET_CODE(get(name).get())); };
  found->wraps = code_of("WRAPS");
  found->outside = code_of("OUTSIDE");
  found->of_mesh = code_of("OF_MESH");
  found->of_random = code_of("OF_RANDOM");
  found->of_mask = code_of("OF_MASK");
  found->of_loss = code_of("OF_LOSS");
  found->dispatcher = get("DISPATCHER").release();
  found->why_not = get("why_not").release();
  found->maker = get("made_of").release();
  found->dispatch = get("DISPATCH").release();
  found->fields = get("SPEC_FIELDS").release();
  CallRule rule;
  rule.kind = CallRule::Kind::kTorch;
  const Ref functions = get("FUNCTIONS"), placements = get("PLACEMENTS");
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(functions.get()); ++i) {
    found->functions.push_back(Py_NewRef(PyTuple_GET_ITEM(functions.get(), i)));
    AddCallRule(found->functions.back(), rule);
  }
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(placements.get()); ++i) {
    auto* placement = reinterpret_cast<PyTypeObject*>(Py_NewRef(PyTuple_GET_ITEM(placements.get(), i)));
    AddLeafType(placement);
    AddComparedType(placement);
  }
  tracing::SetShardedType(reinterpret_cast<PyTypeObject*>(Ref(type).release()));
  return found;
}

bool GuardPart(ReadJournal& reads, BorrowedRef value, SourceId source) {
  PyObject* o = value;
  if (o == Py_None || o == Py_True || o == Py_False || IsMesh(value)) {
    reads.AddGuard(source, GuardKind::kIdentity, value);
    return true;
  }
  if (IsLeaf(value)) {
    reads.AddGuard(source, GuardKind::kEquals, value);
    return true;
  }
  if (!PyTuple_Check(o)) return false;
  reads.AddGuard(source, GuardKind::kTypeIs, reinterpret_cast<PyObject*>(value.type()));
  reads.AddLength(source, PyTuple_GET_SIZE(o));
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(o); ++i) {
    const Ref index = Ref::Steal(PyLong_FromSsize_t(i));
    if (!GuardPart(reads, PyTuple_GET_ITEM(o, i), reads.sources().Item(source, index))) return false;
  }
  return true;
}

}  // namespace

void PrepareForSharded() {
  static bool asked = false;
  if (asked || !IsImported()) return;
  asked = true;
  known = Learn();
}

bool IsMesh(BorrowedRef object) { return known != nullptr && object.type() == known->mesh; }

bool IsShardingFunction(BorrowedRef callable) {
  return known != nullptr && absl::c_linear_search(known->functions, callable.get());
}

bool IsShardingCode(PyCodeObject* code) {
  if (known == nullptr) return false;
  const std::string_view file = FileOf(code);
  return file.find("/torch/distributed/tensor/") != std::string_view::npos ||
         (IsOwnCode(code) && file.ends_with("/_sharded.py"));
}

bool IsShardingDispatch(PyCodeObject* code) {
  return known != nullptr && PySet_Contains(known->dispatch, reinterpret_cast<PyObject*>(code)) == 1;
}

const char* RefusalOfShardingCode(PyCodeObject* code) {
  auto* object = reinterpret_cast<PyObject*>(code);
  if (known == nullptr) return nullptr;
  if (object == known->of_mesh) return "the mesh that is current, for a DTensor; pass the mesh";
  if (object == known->of_mask) return "indices into a DTensor that is shared out where they point";
  if (object == known->of_loss) return "other functions in the place of operators of DTensors";
  return object == known->of_random ? "random numbers of a DTensor" : nullptr;
}

BorrowedRef ShardedDispatcher() { return known->dispatcher; }

void GuardShardedState(ReadJournal& reads) {
  static PyObject* const name = PyUnicode_InternFromString("_custom_op_handlers");
  PyObject* handlers = frame_ops::RawInstanceAttr(known->dispatcher, name);
  if (handlers == nullptr || !PyDict_Check(handlers)) return;
  const SourceId source = reads.sources().InstanceAttr(reads.ConstantSource(known->dispatcher), name);
  reads.AddGuard(source, GuardKind::kIdentity, handlers);
  reads.AddLength(source, PyDict_GET_SIZE(handlers));
}

std::string WhyNotSharded() {
  const HookScope native(HookMode::kOff);
  const Ref why = Ref::Steal(PyObject_CallNoArgs(known->why_not));
  const char* text = why && PyUnicode_Check(why.get()) ? PyUnicode_AsUTF8(why) : nullptr;
  PyErr_Clear();
  return text == nullptr ? "" : text;
}

bool IsSharedAttribute(std::string_view name) {
  static constexpr std::string_view kNames[] = {"shape",  "dtype",   "device",    "ndim",        "layout",    "_spec",
                                                "is_cpu", "is_cuda", "is_sparse", "device_mesh", "placements"};
  return absl::c_linear_search(kNames, name);
}

bool GuardShardedSpec(ReadJournal& reads, BorrowedRef spec, SourceId source) {
  reads.AddGuard(source, GuardKind::kTypeIs, reinterpret_cast<PyObject*>(spec.type()));
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(known->fields); ++i) {
    PyObject* const name = PyTuple_GET_ITEM(known->fields, i);
    PyObject* value = frame_ops::RawInstanceAttr(spec, name);
    if (value == nullptr || !GuardPart(reads, value, reads.sources().InstanceAttr(source, name))) return false;
  }
  return true;
}

Ref NewEntrance() { return Ref::Steal(PyObject_CallNoArgs(known->entrance)); }

BorrowedRef MakerOfSharded() { return known->maker; }

std::optional<PyObject*> RunShardingFrame(PyThreadState* thread, frame_ops::Frame* frame, int throw_flag) {
  if (known == nullptr || throw_flag != 0) return std::nullopt;
  auto* code = reinterpret_cast<PyObject*>(frame_ops::Code(frame));
  if (code == known->outside) {
    const HookScope native(HookMode::kOff);
    const tracing::Tracer::Suspended suspended;
    const FiltersOfProgram filters;
    return frame_ops::EvalDefault(thread, frame, throw_flag);
  }
  if (code != known->wraps) return std::nullopt;
  const Ref tensor = Ref::Create(frame_ops::Slots(frame)[0]);
  if (!tensor || !tracing::Tracer::IsFake(tensor)) return std::nullopt;
  frame_ops::FinishHookedFrame(thread, frame);
  return PyObject_CallOneArg(known->waits, tensor);
}

}  // namespace framefuse
