#include "symbolic/executables/fx_numbers.h"

#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>
#include <array>
#include <bit>
#include <string>
#include <string_view>
#include <utility>

#include "absl/algorithm/container.h"
#include "backends/graph/dim_algebra.h"
#include "frame_eval/hook.h"
#include "symbolic/journals/size_operations.h"
#include "symbolic/journals/sized_call.h"
#include "symbolic/messages/code_text.h"
#include "symbolic/rules/call_arguments.h"
#include "symbolic/tracing/numbers.h"
#include "symbolic/tracing/sizes.h"

namespace framefuse {

using ir::Dim;
using ir::ExprKind;

namespace {

constexpr std::string_view kSymbolName = "symbol";
// By ExprKind, as framefuse/_fx_sizes.py names them.
constexpr auto kNames =
    std::to_array<const char*>({"constant", "symbol",  "add", "mul",   "floordiv", "mod",   "min",  "max",
                                "neg",      "truediv", "pow", "float", "int",      "floor", "ceil", "round",
#define FF_FUNCTION(kind, name, value) name,
#include "backends/graph/float_functions.def"
                                "eq",       "ne",      "lt",  "le",    "and",      "or",    "not"});
static_assert(kNames.size() == static_cast<std::size_t>(ExprKind::kNot) + 1);

Ref ConstantOf(const ir::Expr& e) {
  switch (e.type) {
    case ir::NumberType::kInt:
      return Ref::Steal(PyLong_FromLongLong(e.value));
    case ir::NumberType::kFloat:
      return Ref::Steal(PyFloat_FromDouble(std::bit_cast<double>(e.value)));
    case ir::NumberType::kBool:
      break;
  }
  return Ref::Steal(PyBool_FromLong(static_cast<long>(e.value)));
}

// In normal form, as the recording made it.
Dim Make(ir::ExprTable& table, ExprKind kind, Dim left, Dim right) {
  ir::DimAlgebra algebra(table);
  const auto is_integer = [&](Dim d) { return table.TypeOf(d) == ir::NumberType::kInt; };
  if (!is_integer(left) || !is_integer(right)) return table.Make(kind, left, right);
  if (kind == ExprKind::kAdd) return algebra.Add(left, right);
  if (kind == ExprKind::kMul) return algebra.Multiply(left, right);
  if (kind == ExprKind::kFloorDiv) return algebra.FloorDivide(left, right);
  if (kind == ExprKind::kMod) return algebra.Modulo(left, right);
  if (kind == ExprKind::kMin) return algebra.Minimum(left, right);
  if (kind == ExprKind::kMax) return algebra.Maximum(left, right);
  if (kind == ExprKind::kNeg) return algebra.Negate(left);
  return table.Make(kind, left, right);
}

Dim DimOfTree(ir::ExprTable& table, BorrowedRef tree) {
  PyObject* o = tree.get();
  if (PyFloat_CheckExact(o)) return table.FloatConstant(PyFloat_AS_DOUBLE(o));
  if (!PyTuple_CheckExact(o)) return Dim(PyLong_AsLongLong(o));
  const std::string name = Utf8(PyTuple_GET_ITEM(o, 0));
  PyObject* first = PyTuple_GET_ITEM(o, 1);
  if (name == kSymbolName) return table.OfSymbol(static_cast<ir::SymbolIndex>(PyLong_AsLong(first)));
  const auto kind = static_cast<ExprKind>(std::find(kNames.begin(), kNames.end(), name) - kNames.begin());
  const Dim left = DimOfTree(table, first);
  return Make(table, kind, left, PyTuple_GET_SIZE(o) > 2 ? DimOfTree(table, PyTuple_GET_ITEM(o, 2)) : Dim());
}

bool IsOfOperatorModule(BorrowedRef callable) {
  if (!PyCFunction_Check(callable.get())) return false;
  PyObject* module = reinterpret_cast<PyCFunctionObject*>(callable.get())->m_module;
  const std::string_view name = NameOfCallable(callable);
  return module != nullptr && PyUnicode_Check(module) && Utf8(module) == "_operator" && name != "getitem" &&
         name != "setitem";
}

// Numbers beside a tensor as what Operators::Binary makes of them.
void TakeTensors(tracing::Numbers& numbers, ValueVector* args, std::vector<Ref>* made) {
  const auto is_fake = [](const ValueView& v) { return tracing::Tracer::IsFake(v.object); };
  if (absl::c_none_of(*args, is_fake)) return;
  for (ValueView& v : *args) {
    if (!numbers.IsSymbolic(v.object)) continue;
    made->push_back(numbers.TensorFor(v.object));
    v = ValueView(made->back(), kNoSource);
  }
}

std::vector<std::string> TextsOf(const tracing::Tracer& tracer) {
  std::vector<std::string> texts;
  for (const Dim fact : tracer.sizes().facts()) texts.push_back(tracer.sizes().expressions().Print(fact));
  return texts;
}

}  // namespace

Ref TreeOf(const ir::ExprTable& table, Dim d) {
  if (d.is_constant()) return Ref::Steal(PyLong_FromLongLong(d.constant()));
  const ir::Expr e = table[d.expr];
  if (e.kind == ExprKind::kConstant) return ConstantOf(e);
  const char* name = kNames.at(static_cast<std::size_t>(e.kind));
  if (e.kind == ExprKind::kSymbol) return Ref::Steal(Py_BuildValue("(sL)", name, static_cast<long long>(e.value)));
  const Ref left = TreeOf(table, Dim::OfExpr(e.left));
  if (e.right == ir::kNoExpr) return Ref::Steal(Py_BuildValue("(sO)", name, left.get()));
  return Ref::Steal(Py_BuildValue("(sOO)", name, left.get(), TreeOf(table, Dim::OfExpr(e.right)).get()));
}

Ref TreesOf(const ir::ExprTable& table, const std::vector<Dim>& dims) {
  Ref trees = Ref::Steal(PyTuple_New(static_cast<Py_ssize_t>(dims.size())));
  for (std::size_t i = 0; trees && i < dims.size(); ++i) {
    PyTuple_SET_ITEM(trees.get(), static_cast<Py_ssize_t>(i), TreeOf(table, dims[i]).release());
  }
  return trees;
}

Ref TreeOfNumber(tracing::Tracer& tracer, BorrowedRef object) {
  const tracing::Numbers& numbers = tracer.numbers();
  return numbers.IsSymbolic(object) ? TreeOf(tracer.sizes().expressions(), *numbers.Find(object)) : Ref();
}

Ref NumberOfTree(tracing::Tracer& tracer, BorrowedRef tree) {
  return tracer.numbers().Make(DimOfTree(tracer.numbers().sizes().Table(), tree));
}

void AssumeFacts(const tracing::Tracer& original, tracing::Tracer& tracer) {
  tracing::Sizes& sizes = tracer.numbers().sizes();
  for (const Dim fact : original.sizes().facts()) {
    (void)sizes.DecideBool(DimOfTree(sizes.Table(), TreeOf(original.sizes().expressions(), fact)));
  }
}

bool HasOtherFacts(const tracing::Tracer& original, const tracing::Tracer& tracer) {
  const std::vector<std::string> known = TextsOf(original);
  return absl::c_any_of(TextsOf(tracer), [&](const std::string& fact) { return !absl::c_linear_search(known, fact); });
}

Ref CallWithNumbers(tracing::Tracer& tracer, BorrowedRef callable, BorrowedRef args, BorrowedRef kwargs) {
  tracing::Numbers& numbers = tracer.numbers();
  ValueVector all;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args.get()); ++i) {
    all.emplace_back(BorrowedRef(PyTuple_GET_ITEM(args.get(), i)), kNoSource);
  }
  const Ref names = Ref::Steal(PyList_New(0));
  PyObject *name, *value;
  for (Py_ssize_t position = 0; PyDict_Next(kwargs.get(), &position, &name, &value) != 0;) {
    PyList_Append(names, name);
    all.emplace_back(BorrowedRef(value), kNoSource);
  }
  const Ref kwnames = PyList_GET_SIZE(names.get()) > 0 ? Ref::Steal(PyList_AsTuple(names)) : Ref();
  std::vector<Ref> made;
  if (IsOfOperatorModule(callable)) TakeTensors(numbers, &all, &made);
  const TorchArguments sized(numbers, callable, all, kwnames);
  const HookScope native(HookMode::kOff);
  return numbers.FromTorch(Ref::Steal(CallSized(numbers, callable, all, sized, kwnames)));
}

}  // namespace framefuse
