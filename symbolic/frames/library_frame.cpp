#include "symbolic/frames/library_frame.h"

#include <array>
#include <string_view>

#include "frame_eval/versions/dict_reads.h"
#include "guards/leaf/tensor.h"
#include "symbolic/frames/code_facts.h"

namespace framefuse {
namespace {

std::string_view TextOf(PyObject* text) {
  Py_ssize_t size = 0;
  const char* data = text != nullptr && PyUnicode_Check(text) ? PyUnicode_AsUTF8AndSize(text, &size) : nullptr;
  if (data == nullptr) PyErr_Clear();
  return data == nullptr ? std::string_view() : std::string_view(data, static_cast<std::size_t>(size));
}

bool IsTorchName(std::string_view module) { return module == "torch" || module.substr(0, 6) == "torch."; }

std::string_view TextUnder(PyObject* dict, PyObject* key) {
  return dict == nullptr ? std::string_view() : TextOf(PyDict_GetItemWithError(dict, key));
}

// A module, class or function of torch's.
bool IsOfTorch(PyObject* object) {
  static PyObject* const name = PyUnicode_InternFromString("__name__");
  static PyObject* const module = PyUnicode_InternFromString("__module__");
  if (PyModule_Check(object)) return IsTorchName(TextUnder(PyModule_GetDict(object), name));
  if (PyFunction_Check(object)) return IsTorchName(TextOf(reinterpret_cast<PyFunctionObject*>(object)->func_module));
  if (!PyType_Check(object)) return false;
  return IsTorchName(TextUnder(reinterpret_cast<PyTypeObject*>(object)->tp_dict, module));
}

bool HasValueOfTorch(PyObject* globals) {
  PyObject *key, *value;
  for (Py_ssize_t position = 0; PyDict_Next(globals, &position, &key, &value) != 0;) {
    if (IsOfTorch(value)) return true;
  }
  return false;
}

// Each frame of a library asks. The answer is kept by the version of the globals, which all dicts of all times have
// different ones of; 0 is none.
bool KnowsTorch(PyObject* globals) {
  struct Answer {
    std::uint64_t version;
    bool knows;
  };
  static std::array<Answer, 256> answers{};  // under the GIL
  const std::uint64_t version = frame_ops::kVersionsTellAllChanges ? frame_ops::InlineDictVersion(globals) : 0;
  if (version == 0) return HasValueOfTorch(globals);
  // The lowest bits may be zero for all.
  Answer& answer = answers[(version ^ (version >> 8) ^ (version >> 16)) % answers.size()];
  if (answer.version != version) answer = {version, HasValueOfTorch(globals)};
  return answer.knows;
}

// `levels` of containers are looked into.
bool HoldsTensor(PyObject* object, int levels) {
  if (IsTensor(object)) return true;
  if (levels == 0) return false;
  if (PyTuple_CheckExact(object) || PyList_CheckExact(object)) {
    PyObject** items = PySequence_Fast_ITEMS(object);
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(object); ++i) {
      if (HoldsTensor(items[i], levels - 1)) return true;
    }
  }
  if (!PyDict_CheckExact(object)) return false;
  PyObject *key, *value;
  for (Py_ssize_t position = 0; PyDict_Next(object, &position, &key, &value) != 0;) {
    if (HoldsTensor(value, levels - 1)) return true;
  }
  return false;
}

}  // namespace

bool IsOfLibraryWithoutTensors(frame_ops::Frame* frame) {
  PyCodeObject* code = frame_ops::Code(frame);
  if (!FactsOf(code).is_installed || KnowsTorch(frame_ops::Globals(frame))) return false;
  PyObject** slots = frame_ops::Slots(frame);
  for (int i = 0; i < frame_ops::SlotCount(code); ++i) {
    if (slots[i] != nullptr && HoldsTensor(slots[i], /*levels=*/2)) return false;
  }
  return true;
}

bool IsGeneratedByTorch(frame_ops::Frame* frame) {
  static PyObject* const name = PyUnicode_InternFromString("__name__");
  PyObject* globals = frame_ops::Globals(frame);
  return FactsOf(frame_ops::Code(frame)).is_text && PyDict_CheckExact(globals) && IsTorchName(TextUnder(globals, name));
}

namespace {

constexpr std::string_view kModuleFile = "/torch/nn/modules/module.py";
constexpr std::string_view kWrapperFile = "/torch/nn/parallel/distributed.py";

bool IsFullySharded(PyObject* module) {
  static PyObject* const name = PyUnicode_InternFromString("torch.distributed.fsdp");
  PyObject* fsdp = PyDict_GetItemWithError(PyImport_GetModuleDict(), name);
  PyObject* cls =
      fsdp == nullptr || !PyModule_Check(fsdp) ? nullptr : PyDict_GetItemString(PyModule_GetDict(fsdp), "FSDPModule");
  return cls != nullptr && PyType_Check(cls) &&
         PyType_IsSubtype(Py_TYPE(module), reinterpret_cast<PyTypeObject*>(cls)) != 0;
}

// Calls of modules, with their hooks, lie between. A frame that starts is not linked to its caller yet.
bool IsCalledByWrapper() {
  frame_ops::Frame* caller = frame_ops::CurrentFrame(PyThreadState_Get());
  for (int i = 0; i < 3 && caller != nullptr; ++i, caller = frame_ops::CallerOf(caller)) {
    const std::string_view file = TextOf(frame_ops::Code(caller)->co_filename);
    if (file.ends_with(kWrapperFile)) return true;
    if (!file.ends_with(kModuleFile)) return false;
  }
  return false;
}

}  // namespace

bool IsOfDistributedModule(frame_ops::Frame* frame) {
  PyCodeObject* code = frame_ops::Code(frame);
  if (code->co_argcount == 0 || PyUnicode_CompareWithASCIIString(code->co_name, "forward") != 0) return false;
  if (TextOf(code->co_filename).find("/torch/nn/modules/") == std::string_view::npos) return false;
  PyObject* self = frame_ops::Slots(frame)[0];
  return self != nullptr && (IsFullySharded(self) || IsCalledByWrapper());
}

}  // namespace framefuse
