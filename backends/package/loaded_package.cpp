#include "backends/package/loaded_package.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>

#include <algorithm>
#include <exception>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "backends/builtin/builtin_backends.h"
#include "backends/graph/equal_sizes.h"
#include "backends/graph/literal_parser.h"
#include "backends/graph/sized_plan.h"
#include "backends/graph/text_names.h"
#include "common/status.h"

namespace framefuse {
namespace {

constexpr std::size_t kNowhere = static_cast<std::size_t>(-1);

std::string Numbers(at::IntArrayRef numbers) { return absl::StrCat("[", absl::StrJoin(numbers, ", "), "]"); }

std::string Describe(const at::Tensor& t) {
  return absl::StrCat(ir::PrintDtype(t.scalar_type()), Numbers(t.sizes()), t.is_cpu() ? "" : " on ",
                      t.is_cpu() ? "" : t.device().str());
}

std::string Dims(const ir::ExprTable& exprs, const std::vector<ir::Dim>& dims) {
  return absl::StrCat("[", absl::StrJoin(dims, ", ", [&](std::string* out, ir::Dim d) { *out += exprs.Print(d); }),
                      "]");
}

// A tensor that is only its elements: no view of their conjugates, no wrapper of a transform's, no layout of its own.
bool IsPlain(const at::Tensor& t, c10::DispatchKeySet plain) {
  return t.defined() && t.layout() == c10::kStrided && (t.key_set().raw_repr() & ~plain.raw_repr()) == 0;
}

std::string RangeOf(const ir::Symbol& symbol) {
  const bool bounded = symbol.max != ir::Symbol().max;
  return absl::StrCat(bounded ? "from " : "at least ", symbol.min, bounded ? absl::StrCat(" to ", symbol.max) : "",
                      symbol.divisor == 1 ? "" : absl::StrCat(" and a multiple of ", symbol.divisor));
}

std::vector<std::string_view> Lines(std::string_view text) {
  std::vector<std::string_view> lines;
  for (std::size_t end = 0; !text.empty(); text.remove_prefix(std::min(end + 1, text.size()))) {
    end = text.find('\n');
    if (end == std::string_view::npos) end = text.size();
    if (end > 0) lines.push_back(text.substr(0, end));
  }
  return lines;
}

absl::Status BadText(std::string_view name, std::string_view line) {
  return absl::InvalidArgumentError(
      absl::StrCat("its ", std::string(name), " have a line that is none: ", std::string(line)));
}

}  // namespace

absl::StatusOr<std::shared_ptr<const LoadedPackage>> LoadedPackage::Create(Package package) {
  std::shared_ptr<LoadedPackage> loaded(new LoadedPackage);
  loaded->package_ = std::move(package);
  try {
    const c10::InferenceMode normal(false);
    FF_RETURN_IF_ERROR(loaded->ReadGraph());
    FF_RETURN_IF_ERROR(loaded->ReadResults());
    FF_RETURN_IF_ERROR(loaded->ReadSymbols());
    FF_RETURN_IF_ERROR(loaded->ReadFacts());
    FF_RETURN_IF_ERROR(loaded->TakeWeights());
    FF_RETURN_IF_ERROR(loaded->Compile());
  } catch (const c10::Error& e) {  // no such device, no memory
    return absl::InvalidArgumentError(e.what_without_backtrace());
  } catch (const std::exception& e) {
    return absl::InvalidArgumentError(e.what());
  }
  return std::shared_ptr<const LoadedPackage>(std::move(loaded));
}

absl::StatusOr<std::shared_ptr<const LoadedPackage>> LoadedPackage::Load(const std::string& path,
                                                                         std::string_view sha256) {
  FF_ASSIGN_OR_RETURN(Package package, ReadPackage(path, sha256));
  absl::StatusOr<std::shared_ptr<const LoadedPackage>> loaded = Create(std::move(package));
  if (loaded.ok()) {
    std::const_pointer_cast<LoadedPackage>(*loaded)->package_.weights.clear();  // the graph has its own
    return loaded;
  }
  return absl::OutOfRangeError(absl::StrCat(path, " is not loaded: ", MessageOf(loaded.status())));
}

absl::Status LoadedPackage::ReadGraph() {
  try {
    RegisterBuiltinBackends();  // whose operators the text names
  } catch (const c10::Error&) {
    return absl::FailedPreconditionError(
        "another copy of framefuse is in this process; packages are loaded by that one");
  }
  FF_ASSIGN_OR_RETURN(graph_, ir::Parse(package_.Text(package_texts::kGraph)));
  while (argument_count_ < graph_.inputs.size() && graph_.inputs[argument_count_].role == ir::InputRole::kArgument) {
    ++argument_count_;
  }
  for (std::size_t i = 0; i < graph_.inputs.size(); ++i) {
    const bool fits = i < argument_count_ || graph_.inputs[i].role == ir::InputRole::kParameter;
    if (!fits || graph_.inputs[i].mutated) return absl::InvalidArgumentError("its graph has inputs of another kind");
  }
  for (std::size_t i = 0; i < argument_count_; ++i) {
    const c10::Device device = graph_.value(graph_.inputs[i].value).device;
    keys_.push_back(at::empty({0}, at::TensorOptions().device(device)).key_set());
  }
  FF_ASSIGN_OR_RETURN(const std::vector<std::size_t> guessed,
                      ReadNumbers(package_texts::kGuessed, graph_.nodes.size()));
  for (const std::size_t node : guessed) graph_.nodes[node].guessed = true;
  return absl::OkStatus();
}

absl::Status LoadedPackage::ReadResults() {
  FF_ASSIGN_OR_RETURN(results_, ReadNumbers(package_texts::kResults, UserOutputs().size()));
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::size_t>> LoadedPackage::ReadNumbers(const char* text, std::size_t below) const {
  std::vector<std::size_t> numbers;
  for (std::string_view line : Lines(package_.Text(text))) {
    std::size_t number = 0;
    if (!absl::SimpleAtoi(absl::string_view(line.data(), line.size()), &number) || number >= below) {
      return BadText(text, line);
    }
    numbers.push_back(number);
  }
  return numbers;
}

std::vector<const ir::Output*> LoadedPackage::UserOutputs() const {
  std::vector<const ir::Output*> outputs;
  for (const ir::Output& output : graph_.outputs) {
    if (output.role == ir::OutputRole::kUser) outputs.push_back(&output);
  }
  return outputs;
}

absl::Status LoadedPackage::ReadSymbols() {
  const std::vector<ir::Symbol>& symbols = graph_.exprs.symbols();
  places_.assign(symbols.size(), {kNowhere, 0});
  for (std::string_view line : Lines(package_.Text(package_texts::kSymbols))) {
    const std::vector<std::string> words = absl::StrSplit(absl::string_view(line.data(), line.size()), ' ');
    Place place;
    if (words.size() != 3 || !absl::SimpleAtoi(words[1], &place.argument) || !absl::SimpleAtoi(words[2], &place.dim)) {
      return BadText(package_texts::kSymbols, line);
    }
    const auto named = std::find_if(symbols.begin(), symbols.end(), [&](const auto& s) { return s.name == words[0]; });
    const bool fits =
        place.argument < argument_count_ && place.dim < graph_.value(graph_.inputs[place.argument].value).rank();
    if (named == symbols.end() || !fits) return BadText(package_texts::kSymbols, line);
    places_[static_cast<std::size_t>(named - symbols.begin())] = place;
  }
  for (std::size_t i = 0; i < symbols.size(); ++i) {
    const bool is_size = symbols[i].type == ir::NumberType::kInt && places_[i].argument != kNowhere;
    if (!is_size && !symbols[i].unbacked) {
      return absl::InvalidArgumentError(absl::StrCat("its symbol ", symbols[i].name, " is the size of no argument"));
    }
  }
  return absl::OkStatus();
}

absl::Status LoadedPackage::ReadFacts() {
  FF_ASSIGN_OR_RETURN(facts_, ReadConditions(package_texts::kFacts));
  FF_ASSIGN_OR_RETURN(ir::DeferredFacts deferred, ReadConditions(package_texts::kDeferred));
  if (!deferred.facts.empty()) graph_.deferred = std::make_shared<const ir::DeferredFacts>(std::move(deferred));
  return absl::OkStatus();
}

absl::StatusOr<ir::DeferredFacts> LoadedPackage::ReadConditions(const char* text) const {
  ir::Graph table;
  ir::LiteralParser::Names names;
  ir::DeferredFacts conditions;
  for (const ir::Symbol& symbol : graph_.exprs.symbols()) {
    names.symbols.emplace(symbol.name, table.exprs.AddSymbol(symbol));
  }
  for (std::string_view line : Lines(package_.Text(text))) {
    FF_ASSIGN_OR_RETURN(const ir::LexedLine lexed, ir::LexLine(line));
    ir::LiteralParser parser(lexed.tokens, &table, &names);
    FF_ASSIGN_OR_RETURN(const ir::Dim fact, parser.Expression());
    const bool is_condition = parser.AtEnd() && fact.is_symbolic() && table.exprs.TypeOf(fact) == ir::NumberType::kBool;
    if (!is_condition) return BadText(text, line);
    conditions.facts.push_back(fact);
  }
  conditions.exprs = std::move(table.exprs);
  return conditions;
}

std::map<std::string, at::Tensor> LoadedPackage::Weights() const {
  std::map<std::string, at::Tensor> weights;
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    weights.emplace(graph_.inputs[argument_count_ + i].name, weights_[i]);
  }
  return weights;
}

// Each with the strides that the graph knows it by.
absl::Status LoadedPackage::TakeWeights() {
  for (std::size_t i = argument_count_; i < graph_.inputs.size(); ++i) {
    const ir::Value& value = graph_.value(graph_.inputs[i].value);
    const auto found = package_.weights.find(graph_.inputs[i].name);
    const auto is_number = [](ir::Dim d) { return d.is_constant(); };
    const bool fits = found != package_.weights.end() && found->second.scalar_type() == value.dtype &&
                      value.layout == c10::kStrided && found->second.sizes().size() == value.rank() &&
                      std::all_of(value.sizes.begin(), value.sizes.end(), is_number) &&
                      std::all_of(value.strides.begin(), value.strides.end(), is_number);
    if (!fits) return absl::InvalidArgumentError(absl::StrCat("its weight ", graph_.inputs[i].name, " does not fit"));
    const at::Tensor& stored = found->second;
    std::vector<std::int64_t> strides;
    for (std::size_t d = 0; d < value.rank(); ++d) {
      if (!value.sizes[d].Is(stored.sizes()[d])) {
        return absl::InvalidArgumentError(absl::StrCat("its weight ", graph_.inputs[i].name, " has other sizes"));
      }
      strides.push_back(value.strides[d].constant());
    }
    if (stored.device() == value.device && stored.strides() == at::IntArrayRef(strides)) {
      weights_.push_back(stored);
      continue;
    }
    at::Tensor weight = at::empty_strided(stored.sizes(), strides, stored.options().device(value.device));
    weight.copy_(stored);
    weights_.push_back(std::move(weight));
  }
  return absl::OkStatus();
}

absl::Status LoadedPackage::Compile() {
  ir::Graph graph = graph_;
  ir::JoinEqualSizes(graph, {});
  FF_ASSIGN_OR_RETURN(plan_, SizedPlan::Compile(*FindBackend("fuse"), std::move(graph), BackendOptions()));
  return absl::OkStatus();
}

absl::StatusOr<std::vector<at::Tensor>> LoadedPackage::Run(absl::Span<const at::Tensor> arguments) const {
  try {
    if (arguments.size() != argument_count_) {
      return absl::OutOfRangeError(
          absl::StrCat("the package takes ", argument_count_, " tensors, ", arguments.size(), " were given"));
    }
    FF_RETURN_IF_ERROR(CheckProcess());
    FF_ASSIGN_OR_RETURN(std::vector<std::int64_t> symbols, SymbolsOf(arguments));
    std::vector<at::Tensor> inputs;
    inputs.reserve(graph_.inputs.size());
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      FF_ASSIGN_OR_RETURN(at::Tensor fitted, Fitted(i, arguments[i], symbols));
      inputs.push_back(std::move(fitted));
    }
    FF_RETURN_IF_ERROR(CheckFacts(symbols));
    inputs.insert(inputs.end(), weights_.begin(), weights_.end());
    const at::AutoGradMode no_grad(false);
    absl::StatusOr<std::vector<at::Tensor>> made = plan_->Run(inputs, absl::MakeSpan(symbols));
    const std::optional<std::size_t> otherwise = DeferredFailureOf(made.status());
    if (!otherwise && !made.ok()) return made.status();
    if (!otherwise) {
      std::vector<at::Tensor> results;
      for (const std::size_t output : results_) results.push_back((*made)[output]);
      return results;
    }
    return absl::OutOfRangeError(absl::StrCat(
        "the package serves values with ", graph_.deferred->exprs.Print(graph_.deferred->facts[*otherwise]), " only"));
  } catch (...) {
    return TorchErrorStatus(std::current_exception(), "a package");
  }
}

absl::Status LoadedPackage::CheckProcess() const {
  if (c10::impl::TorchDispatchModeTLS::any_modes_set()) {
    return absl::OutOfRangeError("a dispatch mode of torch's is active, which a package does not serve");
  }
  const std::string dtype = ir::PrintDtype(c10::get_default_dtype_as_scalartype());
  const std::string_view expected = package_.Text(package_texts::kDefaultDtype);
  if (expected.empty() || expected == dtype) return absl::OkStatus();
  return absl::OutOfRangeError(absl::StrCat("torch's default dtype is ", dtype, ", and was ", std::string(expected),
                                            " when the package was exported"));
}

absl::Status LoadedPackage::Wrong(std::size_t argument, const at::Tensor& given, std::string_view what) const {
  return absl::OutOfRangeError(absl::StrCat(argument_name(argument), ": expected ", TypeOf(argument), ", given ",
                                            Describe(given), ": ", std::string(what)));
}

// All but sizes and strides.
absl::Status LoadedPackage::CheckKind(std::size_t argument, const at::Tensor& given) const {
  const ir::Value& value = graph_.value(graph_.inputs[argument].value);
  if (!given.defined()) return absl::OutOfRangeError(absl::StrCat(argument_name(argument), ": no tensor was given"));
  if (given.scalar_type() != value.dtype) {
    return Wrong(argument, given, absl::StrCat("it is not of ", ir::PrintDtype(value.dtype)));
  }
  if (given.device() != value.device) {
    return Wrong(argument, given, absl::StrCat("it is on ", given.device().str(), ", not on ", value.device.str()));
  }
  if (!IsPlain(given, keys_[argument])) {
    return absl::OutOfRangeError(absl::StrCat(argument_name(argument), ": expected ", TypeOf(argument),
                                              ", given a tensor that is not dense and plain"));
  }
  if (static_cast<std::size_t>(given.dim()) != value.rank()) {
    return Wrong(argument, given, absl::StrCat("it has ", given.dim(), " dimensions, not ", value.rank()));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::int64_t>> LoadedPackage::SymbolsOf(absl::Span<const at::Tensor> arguments) const {
  for (std::size_t i = 0; i < arguments.size(); ++i) FF_RETURN_IF_ERROR(CheckKind(i, arguments[i]));
  std::vector<std::int64_t> values;
  for (std::size_t i = 0; i < places_.size(); ++i) {
    const ir::Symbol& symbol = graph_.exprs.symbols()[i];
    const Place& place = places_[i];
    if (place.argument == kNowhere) {
      values.push_back(symbol.hint);
      continue;
    }
    const at::Tensor& given = arguments[place.argument];
    const std::int64_t size = given.size(static_cast<std::int64_t>(place.dim));
    if (size < symbol.min || size > symbol.max || size % symbol.divisor != 0) {
      return Wrong(place.argument, given,
                   absl::StrCat("size ", place.dim, " is ", size, ", and ", symbol.name, " is ", RangeOf(symbol)));
    }
    values.push_back(size);
  }
  return values;
}

absl::Status LoadedPackage::CheckFacts(absl::Span<const std::int64_t> symbols) const {
  std::vector<std::int64_t> values;
  if (!facts_.exprs.EvaluateAll(symbols, &values)) return absl::OutOfRangeError("the sizes are too large");
  for (const ir::Dim fact : facts_.facts) {
    if (values[static_cast<std::size_t>(fact.expr)] != 0) continue;
    return absl::OutOfRangeError(
        absl::StrCat("the package serves sizes with ", facts_.exprs.Print(fact), " only; given: ", ValuesOf(symbols)));
  }
  return absl::OkStatus();
}

// The argument as the graph takes it. Strides of sizes of one reach nothing, and become those that the graph has.
absl::StatusOr<at::Tensor> LoadedPackage::Fitted(std::size_t argument, const at::Tensor& given,
                                                 absl::Span<const std::int64_t> symbols) const {
  const ir::Value& value = graph_.value(graph_.inputs[argument].value);
  std::vector<std::int64_t> strides;
  bool same = true;
  for (std::size_t d = 0; d < value.rank(); ++d) {
    const std::int64_t size = graph_.exprs.Evaluate(value.sizes[d], symbols);
    if (given.sizes()[d] != size) {
      const std::string why = absl::StrCat("size ", d, " is ", given.sizes()[d], ", not ", size);
      return Wrong(argument, given,
                   value.sizes[d].is_constant() ? why : absl::StrCat(why, " (", ValuesOf(symbols), ")"));
    }
    strides.push_back(graph_.exprs.Evaluate(value.strides[d], symbols));
  }
  for (std::size_t d = 0; d < value.rank(); ++d) {
    if (given.strides()[d] == strides[d]) continue;
    same = false;
    if (given.sizes()[d] > 1 && given.numel() > 0) {
      return Wrong(argument, given,
                   absl::StrCat("its strides are ", Numbers(given.strides()), ", not ", Numbers(strides)));
    }
  }
  const at::Tensor plain = given.requires_grad() ? given.detach() : given;
  return same ? plain : plain.as_strided(given.sizes(), strides);
}

std::string LoadedPackage::TypeOf(std::size_t argument) const {
  const ir::Value& value = graph_.value(graph_.inputs[argument].value);
  ir::ExprTable exprs = graph_.exprs;  // asking makes expressions
  std::string text = absl::StrCat(ir::PrintDtype(value.dtype), Dims(exprs, value.sizes));
  if (!ir::IsContiguous(exprs, value)) absl::StrAppend(&text, " with strides ", Dims(exprs, value.strides));
  if (!value.device.is_cpu()) absl::StrAppend(&text, " on ", value.device.str());
  return text;
}

std::string LoadedPackage::ValuesOf(absl::Span<const std::int64_t> symbols) const {
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < places_.size(); ++i) {
    if (places_[i].argument == kNowhere) continue;
    texts.push_back(absl::StrCat(graph_.exprs.symbols()[i].name, " = ", symbols[i], ", size ", places_[i].dim, " of ",
                                 argument_name(places_[i].argument)));
  }
  return absl::StrJoin(texts, "; ");
}

std::string LoadedPackage::Signature() const {
  std::string text;
  for (std::size_t i = 0; i < argument_count_; ++i) {
    absl::StrAppend(&text, "argument ", argument_name(i), ": ", TypeOf(i), "\n");
  }
  const std::vector<const ir::Output*> outputs = UserOutputs();
  for (const std::size_t i : results_) {
    const ir::Value& value = graph_.value(outputs[i]->value);
    absl::StrAppend(&text, "result: ", ir::PrintDtype(value.dtype), Dims(graph_.exprs, value.sizes), "\n");
  }
  for (std::size_t i = 0; i < places_.size(); ++i) {
    const ir::Symbol& symbol = graph_.exprs.symbols()[i];
    if (places_[i].argument == kNowhere) continue;
    absl::StrAppend(&text, "size ", symbol.name, ": size ", places_[i].dim, " of ", argument_name(places_[i].argument),
                    ", ", RangeOf(symbol), "\n");
  }
  for (const ir::Dim fact : facts_.facts) absl::StrAppend(&text, "sizes with ", facts_.exprs.Print(fact), "\n");
  return text;
}

}  // namespace framefuse
