#include "python/package_bindings.h"

#include <pybind11/stl.h>
#include <torch/csrc/autograd/python_variable.h>

#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "backends/package/arrange_inputs.h"
#include "backends/package/loaded_package.h"
#include "python/binding_values.h"
#include "python/graph_plan.h"
#include "symbolic/attempt/exported_graph.h"
#include "symbolic/dispatch/api.h"

namespace framefuse {
namespace {

py::object ObjectOf(const Ref& object) {
  return object ? py::reinterpret_borrow<py::object>(object.get()) : py::object(py::none());
}

py::list ObjectsOf(const std::vector<Ref>& objects) {
  py::list result;
  for (const Ref& object : objects) result.append(ObjectOf(object));
  return result;
}

py::dict ExportedToPython(const ExportedGraph& exported) {
  py::list symbols, compared;
  for (const ExportedGraph::Symbol& s : exported.symbols) {
    symbols.append(py::make_tuple(s.name, ObjectOf(s.tensor), s.dim));
  }
  for (const auto& [one, other] : exported.compared) compared.append(py::make_tuple(ObjectOf(one), ObjectOf(other)));
  py::dict result;
  result["text"] = exported.text;
  result["guessed"] = exported.guessed;
  result["symbols"] = symbols;
  result["facts"] = exported.facts;
  result["deferred"] = exported.deferred;
  result["compared"] = compared;
  result["refusals"] = exported.refusals;
  result["guards"] = exported.guards;
  result["inputs"] = ObjectsOf(exported.inputs);
  result["outputs"] = ObjectsOf(exported.outputs);
  result["runs"] = exported.runs;
  return result;
}

std::vector<at::Tensor> TensorsOf(const py::list& list) {
  std::vector<at::Tensor> tensors;
  if (!TakeTensors(Borrow(list), &tensors)) throw py::error_already_set();
  return tensors;
}

// (from, tensors of which there is one where `from` is negative, symbols, is_weight, name)
using PlacedRow = std::tuple<int, py::list, std::vector<std::pair<int, int>>, bool, std::string>;

std::string ArrangeRows(const std::string& text, const std::vector<PlacedRow>& rows, const std::vector<int>& returned) {
  std::vector<PlacedInput> inputs;
  for (const auto& [from, tensor, symbols, is_weight, name] : rows) {
    const std::vector<at::Tensor> tensors = TensorsOf(tensor);
    inputs.push_back({from, tensors.empty() ? at::Tensor() : tensors[0], symbols, is_weight, name});
  }
  const absl::StatusOr<std::string> arranged = ArrangeInputs(text, inputs, returned);
  RaiseIfError(arranged.status());
  return *arranged;
}

using LoadedOrError = absl::StatusOr<std::shared_ptr<const LoadedPackage>>;

// pybind11 holds no pointers to what is const.
std::shared_ptr<LoadedPackage> HeldByPython(const LoadedOrError& loaded) {
  return std::const_pointer_cast<LoadedPackage>(*loaded);
}

}  // namespace

void BindPackages(py::module_& m) {
  m.def("export_capture",
        [](const py::object& callable, const CompileOptions& options, const py::tuple& args, const py::dict& kwargs) {
          ExportedGraph exported;
          int graphs = 0;
          const py::object result =
              ToPython(Export(Borrow(callable), options, Borrow(args), Borrow(kwargs), &exported, &graphs));
          return py::make_tuple(result, ExportedToPython(exported), graphs);
        });
  m.def("arrange_export", &ArrangeRows);
  py::class_<LoadedPackage, std::shared_ptr<LoadedPackage>>(m, "LoadedPackage")
      .def("run",
           [](const LoadedPackage& p, const py::list& inputs) { return ToPython(RunPackage(p, Borrow(inputs))); })
      .def_property_readonly("signature", &LoadedPackage::Signature)
      .def_property_readonly("texts", [](const LoadedPackage& p) { return p.package().texts; })
      .def_property_readonly("weights", [](const LoadedPackage& p) {
        py::dict result;
        for (const auto& [name, tensor] : p.Weights())
          result[name.c_str()] = ToPython(Ref::Steal(THPVariable_Wrap(tensor)));
        return result;
      });
  m.def("make_package",
        [](std::map<std::string, std::string> texts, const std::vector<std::string>& names, const py::list& weights) {
          Package package{std::move(texts), {}};
          const std::vector<at::Tensor> tensors = TensorsOf(weights);
          for (std::size_t i = 0; i < names.size(); ++i) package.weights.emplace(names[i], tensors.at(i));
          LoadedOrError made = LoadedPackage::Create(std::move(package));
          RaiseIfError(made.status());
          return HeldByPython(made);
        });
  m.def("write_package", [](const std::string& path, const LoadedPackage& package) {
    absl::StatusOr<std::string> written;
    {
      const py::gil_scoped_release released;
      written = WritePackage(path, package.package());
    }
    RaiseIfFileError(written.status());
    return *written;
  });
  m.def("load_package", [](const std::string& path, const std::string& sha256) {
    LoadedOrError loaded;
    {
      const py::gil_scoped_release released;
      loaded = LoadedPackage::Load(path, sha256);
    }
    RaiseIfFileError(loaded.status());
    return HeldByPython(loaded);
  });
}

}  // namespace framefuse
