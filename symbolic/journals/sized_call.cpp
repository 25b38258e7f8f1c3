#include "symbolic/journals/sized_call.h"

#include <vector>

#include "symbolic/messages/code_text.h"
#include "symbolic/rules/call_arguments.h"
#include "symbolic/tracing/int_factories.h"

namespace framefuse {

PyObject* CallSized(const tracing::Numbers& numbers, BorrowedRef callable, absl::Span<const ValueView> args,
                    const TorchArguments& sized, BorrowedRef kwnames) {
  if (!numbers.none() && PyCFunction_Check(callable.get())) {
    std::vector<PyObject*> objects;
    for (const ValueView& v : args) objects.push_back(v.object.get());
    Ref made = tracing::CallIntFactory(numbers, NameOfCallable(callable), objects, kwnames);
    if (made || PyErr_Occurred() != nullptr) return made.release();
  }
  return Vectorcall(callable, sized.args(), kwnames);
}

}  // namespace framefuse
