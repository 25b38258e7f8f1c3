#include "symbolic/attempt/breaks_as_errors.h"

#include <vector>

#include "absl/algorithm/container.h"
#include "symbolic/journals/write_journal.h"

namespace framefuse {
namespace {

struct Setting {
  Ref globals;
  Ref name;
};

std::vector<Setting>& Settings() {
  static auto* settings = new std::vector<Setting>;
  return *settings;
}

}  // namespace

void RegisterBreaksAsErrors(BorrowedRef globals, BorrowedRef name) {
  Settings().push_back({Ref::Create(globals), Ref::Create(name)});
}

bool BreaksAreErrors(WriteJournal& writes) {
  return absl::c_any_of(Settings(), [&](const Setting& setting) {
    if (const OverlayWrite* written = writes.FindGlobal(setting.globals, setting.name)) {
      return written->value.get() == Py_True;
    }
    return PyDict_GetItem(setting.globals, setting.name) == Py_True;
  });
}

}  // namespace framefuse
