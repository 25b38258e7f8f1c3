#include "symbolic/executables/fx_values.h"

#include <ATen/core/ivalue.h>
#include <torch/csrc/Device.h>
#include <torch/csrc/DynamicTypes.h>
#include <torch/csrc/utils/tensor_memoryformats.h>

#include <vector>

#include "backends/graph/operators.h"
#include "symbolic/executables/fx_numbers.h"

namespace framefuse {
namespace {

Ref ListOf(const std::vector<Ref>& items) {
  Ref list = Ref::Steal(PyList_New(0));
  for (const Ref& item : items) {
    if (!item || PyList_Append(list, item) != 0) return Ref();
  }
  return list;
}

Ref NumberOf(std::int64_t number, ir::NamedInt named) {
  switch (named) {
    case ir::NamedInt::kDtype:
      return Ref::Create(reinterpret_cast<PyObject*>(torch::getTHPDtype(static_cast<c10::ScalarType>(number))));
    case ir::NamedInt::kLayout:
      return Ref::Create(reinterpret_cast<PyObject*>(torch::getTHPLayout(static_cast<c10::Layout>(number))));
    case ir::NamedInt::kMemoryFormat:
      return Ref::Create(torch::utils::getTHPMemoryFormat(static_cast<c10::MemoryFormat>(number)));
    case ir::NamedInt::kNone:
      return Ref::Steal(PyLong_FromLongLong(number));
  }
  return Ref();
}

Ref PythonOf(const c10::IValue& v, ir::NamedInt named) {
  if (v.isNone()) return Ref::Create(Py_None);
  if (v.isBool()) return Ref::Create(v.toBool() ? Py_True : Py_False);
  if (v.isInt()) return NumberOf(v.toInt(), named);
  if (v.isDouble()) return Ref::Steal(PyFloat_FromDouble(v.toDouble()));
  if (v.isComplexDouble()) {
    const c10::complex<double> c = v.toComplexDouble();
    return Ref::Steal(PyComplex_FromDoubles(c.real(), c.imag()));
  }
  if (v.isString()) return Ref::Steal(PyUnicode_FromString(v.toStringRef().c_str()));
  if (v.isDevice()) return Ref::Steal(THPDevice_New(v.toDevice()));
  if (!v.isList()) return Ref();
  std::vector<Ref> items;
  for (const c10::IValue& item : v.toListRef()) items.push_back(PythonOf(item, named));
  return ListOf(items);
}

Ref ValueNumber(ir::ValueId v) { return Ref::Steal(Py_BuildValue("(i)", static_cast<int>(v))); }

// ("number", tree)
Ref SizeOf(const ir::ExprTable& table, ir::Dim d) {
  const Ref tree = TreeOf(table, d);
  return tree ? Ref::Steal(Py_BuildValue("(sO)", "number", tree.get())) : Ref();
}

Ref PythonOf(const ir::Graph& graph, const ir::Arg& arg, ir::NamedInt named) {
  switch (arg.kind) {
    case ir::Arg::Kind::kNone:
      return Ref::Create(Py_None);
    case ir::Arg::Kind::kValue:
      return ValueNumber(arg.value);
    case ir::Arg::Kind::kValueList: {
      std::vector<Ref> items;
      for (ir::ValueId v : arg.values) items.push_back(ValueNumber(v));
      return ListOf(items);
    }
    case ir::Arg::Kind::kConstant:
      return PythonOf(arg.constant, named);
    case ir::Arg::Kind::kDim:
      return SizeOf(graph.exprs, arg.dims[0]);
    case ir::Arg::Kind::kDimList: {
      std::vector<Ref> items;
      for (ir::Dim d : arg.dims) items.push_back(SizeOf(graph.exprs, d));
      return ListOf(items);
    }
  }
  return Ref();
}

// A symbolic number that operators take as they take a number of the program's, looked at meanwhile or not.
bool IsNumber(const ir::Graph& graph, const ir::Node& node) {
  return ir::Is(node.op, ir::OpName::kScalarTensor) && node.outputs[0] != ir::kNoValue &&
         graph.value(node.outputs[0]).wrapped_number;
}

Ref TreeOfOperand(const ir::Graph& graph, const ir::Arg& number) {
  if (number.kind == ir::Arg::Kind::kDim) return TreeOf(graph.exprs, number.dims[0]);
  return PythonOf(number.constant, ir::NamedInt::kNone);
}

Ref ResultsOf(const ir::Node& node) {
  std::vector<Ref> results;
  std::size_t next = 0;
  for (std::size_t r = 0; r < node.op->returns().size(); ++r) {
    if (node.list_sizes.empty() || node.list_sizes[r] < 0) {
      results.push_back(ValueNumber(next < node.outputs.size() ? node.outputs[next++] : ir::kNoValue));
      continue;
    }
    std::vector<Ref> items;
    for (int i = 0; i < node.list_sizes[r]; ++i) items.push_back(ValueNumber(node.outputs[next++]));
    results.push_back(ListOf(items));
  }
  return results.size() == 1 ? results[0] : ListOf(results);
}

}  // namespace

Ref PythonFormOf(const ir::Graph& graph, const ir::Node& node) {
  if (IsNumber(graph, node)) {
    const Ref tree = TreeOfOperand(graph, node.args[0]);
    return tree ? Ref::Steal(Py_BuildValue("(sOi)", "number", tree.get(), static_cast<int>(node.outputs[0]))) : tree;
  }
  Ref args = Ref::Steal(PyList_New(0));
  Ref kwargs = Ref::Steal(PyDict_New());
  for (std::size_t i = 0; i < node.args.size(); ++i) {
    const ir::OpArgument& schema = node.op->arguments()[i];
    const Ref arg = PythonOf(graph, node.args[i], schema.named_int);
    if (!arg) {
      PyErr_Clear();
      return Ref();
    }
    if (!schema.keyword_only) {
      PyList_Append(args, arg);
    } else if (arg.get() != Py_None || !schema.default_none) {
      PyDict_SetItemString(kwargs, schema.name.c_str(), arg);
    }
  }
  return Ref::Steal(Py_BuildValue("(sOOO)", node.op->name().c_str(), args.get(), kwargs.get(), ResultsOf(node).get()));
}

}  // namespace framefuse
