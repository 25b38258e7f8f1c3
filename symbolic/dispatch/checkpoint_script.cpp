#include "symbolic/dispatch/checkpoint_script.h"

#include <utility>

namespace framefuse {
namespace {

constexpr char kAttribute[] = "_framefuse_script";

// A C++ object that an attribute of a Python object owns; made where it is not there. Null: it cannot be set.
template <class T>
T* OwnedBy(BorrowedRef owner) {
  if (const Ref there = Ref::Steal(PyObject_GetAttrString(owner.get(), kAttribute))) {
    return static_cast<T*>(PyCapsule_GetPointer(there.get(), kAttribute));
  }
  PyErr_Clear();
  auto made = std::make_unique<T>();
  const Ref capsule = Ref::Steal(PyCapsule_New(
      made.get(), kAttribute, [](PyObject* o) { delete static_cast<T*>(PyCapsule_GetPointer(o, kAttribute)); }));
  if (!capsule) return nullptr;
  T* const result = made.release();
  return PyObject_SetAttrString(owner.get(), kAttribute, capsule.get()) == 0 ? result : nullptr;
}

}  // namespace

std::optional<CheckpointScript> CheckpointScript::Now() {
  const std::optional<CheckpointHooks> hooks = CheckpointHooksNow();
  if (!hooks) return std::nullopt;
  auto* const steps = OwnedBy<std::shared_ptr<Steps>>(hooks->frame);
  Reader* reader = nullptr;
  if (steps != nullptr && hooks->second_pack) reader = OwnedBy<Reader>(hooks->second_pack);
  if (steps == nullptr || (hooks->second_pack && reader == nullptr)) {
    PyErr_Clear();
    return std::nullopt;
  }
  if (*steps == nullptr) *steps = std::make_shared<Steps>();
  if (reader != nullptr) reader->steps = *steps;
  return CheckpointScript(*hooks, steps->get(), reader);
}

void CheckpointScript::Note(std::shared_ptr<Site> site, std::shared_ptr<Entry> entry) {
  steps_->push_back({std::move(site), std::move(entry)});
}

bool CheckpointScript::RunsAsPython(bool off) {
  if (!is_second_run()) {
    if (off) Note(nullptr, nullptr);
    return off;
  }
  const bool ran_so = reader_->next < steps_->size() && (*steps_)[reader_->next].site == nullptr;
  if (ran_so) ++reader_->next;
  return ran_so;
}

std::optional<std::shared_ptr<Entry>> CheckpointScript::Next(const std::shared_ptr<Site>& site) {
  if (reader_->next == steps_->size() || (*steps_)[reader_->next].site != site) return std::nullopt;
  return (*steps_)[reader_->next++].entry;
}

void CheckpointScript::RaiseOtherWay(BorrowedRef function, const std::string& why) {
  PyObject* const module = PyDict_GetItemString(PyImport_GetModuleDict(), "torch.utils.checkpoint");
  const Ref error = Ref::Steal(module == nullptr ? nullptr : PyObject_GetAttrString(module, "CheckpointError"));
  PyErr_Clear();
  PyErr_Format(error && PyExceptionClass_Check(error.get()) ? error.get() : PyExc_RuntimeError,
               "a checkpoint runs its function again, and %U takes another way than in its first run: %s; what it goes "
               "by must be as it was then, or compile the function that calls checkpoint() instead",
               function.get(), why.c_str());
}

}  // namespace framefuse
