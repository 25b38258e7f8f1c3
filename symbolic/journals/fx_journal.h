// FxJournal: the torch-level calls of an attempt in order, for explain() and for FX backends.
// Invariant: with `keep_values` off only the targets are kept, so no fake outlives its use. With it on, a
// value is known by its object's identity; the journal keeps arguments and results alive until it dies, its lists and
// dicts as they were at the call. An entry stands for the nodes of the recording that its call made; no two entries
// share one. Nodes that no entry has are written into the FX graph as ATen operators (fx_graph.h).
#ifndef FRAMEFUSE_SYMBOLIC_JOURNALS_FX_JOURNAL_H_
#define FRAMEFUSE_SYMBOLIC_JOURNALS_FX_JOURNAL_H_

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "frame_eval/ref.h"
#include "symbolic/evaluator/protocols.h"
#include "symbolic/tracing/tracer.h"

namespace framefuse {

struct FxNode {
  // kHostTensor: a function that makes a tensor of numbers. kBecomes: a call that the graph has the operators of; from
  // here on tensors (args) have the values of the recording whose numbers are `result`.
  enum class Op : std::uint8_t { kCallFunction, kCallMethod, kGetAttr, kHostTensor, kBecomes };
  Op op = Op::kCallFunction;
  Ref target;  // the callable, or the method's name
  Ref args;    // tuple, keyword dict: containers holding fakes (empty unless values are kept)
  Ref kwargs;
  Ref result;
  int begin = 0;  // of the recording's nodes
  int end = 0;
};

class FxJournal {
 public:
  FxJournal(bool keep_values, const tracing::Tracer& tracer) : keep_values_(keep_values), tracer_(tracer) {}
  bool keep_values() const { return keep_values_; }
  void NoteFrame() { ++frames_; }
  // From here on calls leave no entries: an FX graph has the ATen operators that they recorded. Nests.
  void EnterAsOperators() { ++as_operators_; }
  void LeaveAsOperators() { --as_operators_; }
  class AsOperators {
   public:
    explicit AsOperators(FxJournal& journal) : journal_(journal) { journal_.EnterAsOperators(); }
    ~AsOperators() { journal_.LeaveAsOperators(); }
    AsOperators(const AsOperators&) = delete;
    AsOperators& operator=(const AsOperators&) = delete;

   private:
    FxJournal& journal_;
  };
  // Within a call a warning was put off until the graph has run: the call itself would warn again in the graph. False:
  // there is no call.
  [[nodiscard]] bool NoteWarning();
  // The engine runs in the captured code. Such a graph has operators only, and nothing is differentiated in it.
  void NoteBackwardPass();
  int backward_pass() const { return backward_pass_; }  // the recording's node that was next then; -1: none
  void Truncate(std::size_t count);
  void Clear() { Truncate(0); }
  const std::vector<FxNode>& nodes() const { return nodes_; }

 private:
  friend class FxCall;
  void Add(FxNode node);

  bool keep_values_;
  int backward_pass_ = -1;
  int open_calls_ = 0;
  std::uint64_t warnings_ = 0;  // that were put off
  const tracing::Tracer& tracer_;
  std::uint64_t frames_ = 0;  // that were evaluated
  int as_operators_ = 0;
  std::vector<FxNode> nodes_;
  absl::flat_hash_map<PyObject*, std::size_t> results_;  // fakes in results, by the entry that keeps them alive
};

// One call of C code, from before it runs. Recorded as one entry, it takes the place of what its callees left, unless
// frames of the program ran in it: then theirs stay. One that gives an input other sizes leaves no entry: the graph
// has its operators, and the entry of the code does that to the input when the graph has run. Record returns why the
// call cannot stand in a graph for an FX backend, or an empty text.
class FxCall {
 public:
  FxCall(FxJournal& journal, std::initializer_list<BorrowedRef> objects);
  FxCall(FxJournal& journal, absl::Span<const ValueView> args);
  ~FxCall() { --journal_.open_calls_; }
  FxCall(const FxCall&) = delete;
  FxCall& operator=(const FxCall&) = delete;

  // `in_any_case`: where keep_values is off, and where it is on for what sets torch's state.
  [[nodiscard]] std::string_view RecordCall(BorrowedRef callable, absl::Span<const ValueView> args, BorrowedRef kwnames,
                                            BorrowedRef result, bool in_any_case);
  [[nodiscard]] std::string_view RecordHostTensor(BorrowedRef callable, absl::Span<const ValueView> args,
                                                  BorrowedRef kwnames, BorrowedRef result);
  [[nodiscard]] std::string_view RecordOperator(BorrowedRef function, std::initializer_list<BorrowedRef> operands,
                                                BorrowedRef result);
  // Of a tensor.
  [[nodiscard]] std::string_view RecordAttribute(BorrowedRef owner, BorrowedRef name, BorrowedRef result);
  // A write that no entry stands for: it may have changed nothing.
  [[nodiscard]] std::string_view ConfirmWrite() const { return Confirm(BorrowedRef()); }

 private:
  using State = std::vector<std::uintptr_t>;
  void NoteStates();
  std::string_view Record(FxNode node, bool in_any_case);
  std::string_view Confirm(BorrowedRef result) const;
  bool HandsOutNew(BorrowedRef result) const;
  bool IsToBeOperators() const;
  // Of tensors that are other values of the recording since the call, which leaves no other entry.
  void NoteNewValues(const FxNode& call);

  FxJournal& journal_;
  std::size_t entries_;
  int nodes_;
  std::uint64_t frames_;
  std::uint64_t warnings_;
  std::vector<Ref> fakes_;  // that took part
  std::vector<State> states_;
};

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_JOURNALS_FX_JOURNAL_H_
