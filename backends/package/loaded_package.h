// LoadedPackage: a package as it runs: its graph compiled by the backend "fuse", its weights, and the check of a call's
// arguments against its signature, which is the graph's own input lines.
// Invariant: immutable; any number of threads may call Run. No gradients: arguments are taken without their histories.
#ifndef FRAMEFUSE_BACKENDS_PACKAGE_LOADED_PACKAGE_H_
#define FRAMEFUSE_BACKENDS_PACKAGE_LOADED_PACKAGE_H_

#include <ATen/core/Tensor.h>

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "backends/graph/backend.h"
#include "backends/graph/graph.h"
#include "backends/package/package_file.h"

namespace framefuse {

// What the texts of a package are named.
namespace package_texts {
inline constexpr char kGraph[] = "graph";        // as ir::Print gives it; inputs: arguments, then weights
inline constexpr char kSymbols[] = "symbols";    // a line each: name, argument, dimension
inline constexpr char kFacts[] = "facts";        // a line each: what symbols must meet
inline constexpr char kDeferred[] = "deferred";  // the same of symbols that the graph computes (ir::DeferredFacts)
inline constexpr char kGuessed[] = "guessed";    // numbers of nodes (ir::Node::guessed)
inline constexpr char kResults[] = "results";    // which of the graph's user outputs they are, in the call's order
inline constexpr char kDefaultDtype[] = "default_dtype";  // torch's, by which operators without a dtype go
}  // namespace package_texts

class LoadedPackage {
 public:
  // InvalidArgument: a text of the package is none that this framefuse knows. Weights that are where the graph has them
  // are used as they are, and see what is written to them later.
  static absl::StatusOr<std::shared_ptr<const LoadedPackage>> Create(Package package);
  static absl::StatusOr<std::shared_ptr<const LoadedPackage>> Load(const std::string& path, std::string_view sha256);

  // OutOfRange: arguments that the package does not serve; the message names the first. Else what the graph's run says.
  absl::StatusOr<std::vector<at::Tensor>> Run(absl::Span<const at::Tensor> arguments) const;

  std::size_t argument_count() const { return argument_count_; }
  const std::string& argument_name(std::size_t i) const { return graph_.inputs[i].name; }
  std::size_t result_count() const { return results_.size(); }
  std::string Signature() const;                       // a line for each argument and result, and what sizes must meet
  const Package& package() const { return package_; }  // without its weights, where it comes from a file
  std::map<std::string, at::Tensor> Weights() const;   // as the graph takes them

 private:
  struct Place {
    std::size_t argument = 0;
    std::size_t dim = 0;
  };
  LoadedPackage() = default;
  absl::Status ReadGraph();
  absl::Status ReadResults();
  absl::StatusOr<std::vector<std::size_t>> ReadNumbers(const char* text, std::size_t below) const;
  std::vector<const ir::Output*> UserOutputs() const;
  absl::Status ReadSymbols();
  absl::Status ReadFacts();
  absl::StatusOr<ir::DeferredFacts> ReadConditions(const char* text) const;
  absl::Status TakeWeights();
  absl::Status Compile();
  absl::Status CheckProcess() const;

  absl::Status Wrong(std::size_t argument, const at::Tensor& given, std::string_view what) const;
  absl::Status CheckKind(std::size_t argument, const at::Tensor& given) const;
  absl::StatusOr<std::vector<std::int64_t>> SymbolsOf(absl::Span<const at::Tensor> arguments) const;
  absl::Status CheckFacts(absl::Span<const std::int64_t> symbols) const;
  absl::StatusOr<at::Tensor> Fitted(std::size_t argument, const at::Tensor& given,
                                    absl::Span<const std::int64_t> symbols) const;
  std::string TypeOf(std::size_t argument) const;
  std::string ValuesOf(absl::Span<const std::int64_t> symbols) const;

  Package package_;
  ir::Graph graph_;                        // as its text says; the plan has a copy
  ir::DeferredFacts facts_;                // what symbols of sizes must meet
  std::vector<Place> places_;              // by symbol; of one that the graph computes none
  std::vector<at::Tensor> weights_;        // by input, behind the arguments
  std::vector<c10::DispatchKeySet> keys_;  // of an argument: those of a plain tensor there
  std::vector<std::size_t> results_;       // of the graph's user outputs
  std::size_t argument_count_ = 0;
  std::shared_ptr<Plan> plan_;
};

}  // namespace framefuse

#endif  // FRAMEFUSE_BACKENDS_PACKAGE_LOADED_PACKAGE_H_
