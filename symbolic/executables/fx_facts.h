// fx_facts: what the executable of an FX backend knows of the graph. Invariant: there is no fake in it.
#ifndef FRAMEFUSE_SYMBOLIC_EXECUTABLES_FX_FACTS_H_
#define FRAMEFUSE_SYMBOLIC_EXECUTABLES_FX_FACTS_H_

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "backends/autograd/output_history.h"
#include "backends/graph/dim.h"
#include "symbolic/entry/expectations.h"
#include "symbolic/executables/fx_graph.h"
#include "symbolic/executables/fx_sizes.h"
#include "symbolic/executables/fx_writes.h"
#include "symbolic/executables/random_state.h"
#include "symbolic/reconstruct/close.h"

namespace framefuse {

struct FxFacts {
  struct Result {
    c10::ScalarType dtype = c10::ScalarType::Float;
    c10::Device device{c10::DeviceType::CPU};
    std::vector<ir::Dim> sizes;
    bool may_be_view = true;  // of what takes another shape in place the graph makes views, which the program does not
    bool of_no_grad = false;  // a view that the program makes without gradients
  };
  // A float that the graph computes, for the entry's own symbol.
  struct Number {
    std::size_t result = 0;
    std::int64_t element = 0;
    std::size_t symbol = 0;
  };
  // A result whose history a backward pass in the graph has used up.
  struct Spent {
    std::size_t result = 0;
    std::vector<std::size_t> behind;  // the callable's inputs that it leads to
    SpentFunction function;
    bool is_view = false;  // of what has that history
  };
  std::vector<Result> results;  // then the tensors that hold numbers
  std::size_t user_results = 0;
  std::vector<Number> numbers;
  std::shared_ptr<const FxSizes> sizes;
  std::vector<FxWrite> writes;  // kept where something is expected: a run that finds it otherwise takes them back
  DrawnFrom random;
  std::vector<ExpectedOutput> expected;
  std::vector<Spent> spent;
  bool without_grad = false;    // it has its backward pass itself
  bool warns_of_sizes = false;  // it may, and the entry says it (unsaid_warnings.h)
};

FxFacts FactsOf(const FxGraph& graph, const Closed& closed, Capture& capture);

// What `made` is, where it is no result of that kind.
std::string WhyNot(BorrowedRef made, const FxFacts::Result& wanted, absl::Span<const std::int64_t> sizes);

// Results whose history the graph's own backward pass has used up get one that says so.
void SetSpentHistories(const FxFacts& facts, absl::Span<PyObject* const> inputs, std::vector<Ref>* outputs);
// What is no view in eager is none for autograd: a later write leaves it the history that it has. And a later write may
// give a view one, though the module ran without histories.
void MakeViewsAsEager(const FxFacts& facts, std::vector<Ref>* outputs);

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_EXECUTABLES_FX_FACTS_H_
