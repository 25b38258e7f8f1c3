// fx_graph: what an attempt recorded as an fx.GraphModule, and the check that the module computes just that.
// The entries of the journal become its nodes; operators that no entry stands for, and entries that hide a tensor which
// is used later, are written as ATen operators. Python builds the module (framefuse/_fx.py), C++ says what was
// recorded. Invariant: a module that is returned holds neither fakes nor the tensors of the call that was captured.
#ifndef FRAMEFUSE_SYMBOLIC_EXECUTABLES_FX_GRAPH_H_
#define FRAMEFUSE_SYMBOLIC_EXECUTABLES_FX_GRAPH_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "symbolic/reconstruct/close.h"

namespace framefuse {

struct FxGraph {
  Ref module;
  std::vector<int> symbols;      // of its first placeholders, by number
  std::vector<SourceId> inputs;  // of the others
  Ref examples;                  // list: the tensors that the inputs are in this call
  Ref sizes;              // list, one tuple a symbol, then one an input: see FxBackend.compile; empty: no symbols
  int refused_node = -1;  // no module: this node of the recording, or what comes before it, has no form in FX
  std::string why_refused;
  const char* told = nullptr;       // to the user; null: no more than that
  bool needs_static_sizes = false;  // with symbolic ones it has no form
  bool needs_no_unbacked = false;   // with numbers that it computes (fx_unbacked.h)
};

// `fx_backend`: see CompileOptions. With `verify` the module is always run on fakes and compared with the recording,
// else where ATen operators stand in it. Inside the attempt, with its fakes alive.
absl::StatusOr<FxGraph> BuildFx(Capture& capture, const Closed& closed, BorrowedRef fx_backend, bool verify);

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_EXECUTABLES_FX_GRAPH_H_
