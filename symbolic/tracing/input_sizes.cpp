#include "symbolic/tracing/input_sizes.h"

#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/pybind.h>
#include <torch/csrc/utils/python_symnode.h>

#include <algorithm>

#include "backends/graph/operators.h"
#include "frame_eval/ref.h"
#include "symbolic/tracing/plain_numbers.h"
#include "symbolic/tracing/state.h"
#include "symbolic/tracing/tracer.h"
#include "symbolic/tracing/unbacked_sizes.h"

namespace framefuse::tracing {

// In the order of today's strides each is the one before times its size, as far as it is now.
InputSizes MakeSizesSymbolic(Sizes& table, const at::Tensor& real, SymbolicDims symbolic, Dims* sizes, Dims* strides) {
  InputSizes result;
  const std::size_t rank = std::min<std::size_t>(sizes->size(), 32);
  for (std::size_t d = 0; d < rank; ++d) {
    if ((symbolic.sizes >> d & 1) == 0 || real.sizes()[d] < 2) continue;
    (*sizes)[d] = table.ToSymInt(table.NewSymbol(real.sizes()[d]));
    result.symbols.emplace_back(static_cast<int>(d), false);
  }
  std::vector<std::size_t> order(rank);
  for (std::size_t d = 0; d < rank; ++d) order[d] = rank - 1 - d;
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return real.strides()[a] < real.strides()[b]; });
  ir::Dim expected(1);
  for (const std::size_t d : order) {
    const std::int64_t stride = real.strides()[d];
    if (table.HintOf(expected) == stride) {
      if (expected.is_symbolic()) result.strides.emplace_back(static_cast<int>(d), expected);
      (*strides)[d] = table.ToSymInt(expected);
    } else if ((symbolic.strides >> d & 1) != 0 && stride > 1) {
      (*strides)[d] = table.ToSymInt(table.NewSymbol(stride));
      result.symbols.emplace_back(static_cast<int>(d), true);
    }
    const ir::Dim own = table.ToDim((*strides)[d]);
    expected = stride == 0 ? expected : table.Algebra().Multiply(own, table.ToDim((*sizes)[d]));
  }
  return result;
}

namespace {
// Without making one; versions of torch differ in how it is asked for.
template <typename Slot>
PyObject* ObjectIn(const Slot& slot) {
  if constexpr (requires { slot.load_pyobj(); }) {
    return slot.load_pyobj();
  } else {
    return slot.check_pyobj().value_or(nullptr);
  }
}
}  // namespace

std::optional<ir::Dim> SizeThatStandsIn(Sizes& sizes, const at::Tensor& number) {
  PyObject* object = ObjectIn(*number.unsafeGetTensorImpl()->pyobj_slot());
  if (object == nullptr) return std::nullopt;
  const pybind11::gil_scoped_acquire gil;  // operators run without
  static PyObject* const name = PyUnicode_InternFromString("_wrapped_number");
  const Ref symbol = Ref::Steal(PyObject_GetAttr(object, name));
  if (!symbol) PyErr_Clear();
  if (!symbol) return std::nullopt;
  if (torch::is_symint(symbol.get())) return sizes.ToDim(pybind11::cast<c10::SymInt>(pybind11::handle(symbol.get())));
  return sizes.ToDim(pybind11::cast<c10::SymFloat>(pybind11::handle(symbol.get())));
}

at::Tensor TensorOfSize(Recorder& recorder, ir::Dim size) {
  static const c10::OperatorHandle make = ir::RequireOp(ir::OpName::kScalarTensor)->handle();
  Sizes& sizes = recorder.sizes();
  const bool is_float = sizes.IsFloat(size);
  const c10::IValue number = is_float ? c10::IValue(sizes.ToSymFloat(size)) : c10::IValue(sizes.ToSymInt(size));
  torch::jit::Stack stack = {number, is_float ? at::kDouble : at::kLong, c10::IValue(), c10::IValue(), c10::IValue()};
  recorder.RecordPlain(TraitsOf(make), &stack);
  at::Tensor made = stack[0].toTensor();
  made.unsafeGetTensorImpl()->set_wrapped_number(true);
  recorder.graph().value(AsFake(made)->value()).wrapped_number = true;
  return made;
}

ir::Arg OperandOf(Sizes& sizes, const c10::SymFloat& number) {
  const ir::Dim d = sizes.AsOperand(sizes.ToDim(number));
  const ir::Expr& e = sizes.Table()[d.expr];
  return e.kind == ir::ExprKind::kConstant ? ir::Arg::Constant(ir::NumberOf(e.value, e.type)) : ir::Arg::OfDim(d);
}

}  // namespace framefuse::tracing
