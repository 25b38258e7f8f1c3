#include "symbolic/tracing/later_writes.h"

#include <torch/csrc/autograd/python_variable.h>

#include <optional>

#include "symbolic/tracing/fake_tensor.h"
#include "symbolic/tracing/recorder.h"

namespace framefuse::tracing {

int NodesNow() {
  Recorder* recorder = Recorder::Current();
  return recorder == nullptr ? 0 : static_cast<int>(recorder->graph().nodes.size());
}

int ValueNow(BorrowedRef tensor) {
  const FakeImpl* fake = AsFake(THPVariable_Unpack(tensor.get()));
  return fake == nullptr ? -1 : static_cast<int>(fake->value());
}

bool IsRebound(BorrowedRef tensor) {
  Recorder* recorder = Recorder::Current();
  return recorder == nullptr || !recorder->inputs().Contains(static_cast<ir::ValueId>(ValueNow(tensor)));
}

bool IsStill(BorrowedRef tensor, int value, BorrowedRef shape) {
  if (ValueNow(tensor) != value || !PyTuple_CheckExact(shape.get())) return false;
  const c10::SymIntArrayRef sizes = THPVariable_Unpack(tensor.get()).sym_sizes();
  if (static_cast<Py_ssize_t>(sizes.size()) != PyTuple_GET_SIZE(shape.get())) return false;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const long long size = PyLong_AsLongLong(PyTuple_GET_ITEM(shape.get(), static_cast<Py_ssize_t>(i)));
    if (sizes[i].maybe_as_int() != std::optional<std::int64_t>(size)) return false;
  }
  return true;
}

bool IsWrittenFrom(BorrowedRef tensor, int from) {
  Recorder* recorder = Recorder::Current();
  const FakeImpl* fake = AsFake(THPVariable_Unpack(tensor.get()));
  if (recorder == nullptr || fake == nullptr) return true;
  const ir::Graph& graph = recorder->graph();
  const ir::StorageId storage = graph.value(fake->value()).storage;
  for (std::size_t i = static_cast<std::size_t>(from); i < graph.nodes.size(); ++i) {
    const ir::Node& n = graph.nodes[i];
    if (!n.op->mutates()) continue;
    bool written = false;
    for (std::size_t a = 0; a < n.args.size(); ++a) {
      if (!n.op->arguments()[a].written) continue;
      ir::ForEachValue(n.args[a], [&](ir::ValueId v) { written = written || graph.value(v).storage == storage; });
    }
    if (written) return true;
  }
  return false;
}

}  // namespace framefuse::tracing
