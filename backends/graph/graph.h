// Graph: ATen-level SSA with forward and backward phases, its input contract and its text form.
// A graph is *recorded* or *functional*. Recorded: nodes run in order on tensors with memory; an in-place
// node writes its argument's tensor, and later uses of that value id (and of its views) see the write.
// Functional (after passes/functionalize): no node writes an argument; values never change.
// Invariant: every value has one definition (input, constant or node output) before its uses.
#ifndef FRAMEFUSE_BACKENDS_GRAPH_GRAPH_H_
#define FRAMEFUSE_BACKENDS_GRAPH_GRAPH_H_

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "backends/graph/dim.h"
#include "backends/graph/op.h"

namespace framefuse::ir {

using ValueId = std::int32_t;
using NodeIndex = std::int32_t;
using StorageId = std::int32_t;
using OriginId = std::int32_t;
inline constexpr ValueId kNoValue = -1;
inline constexpr NodeIndex kNoNode = -1;

enum class ValueKind : std::uint8_t { kTensor, kInt, kFloat, kBool };

// What is known of a value before execution. Numbers (kInt …) have no tensor metadata.
struct Value {
  ValueKind kind = ValueKind::kTensor;
  c10::ScalarType dtype = c10::ScalarType::Float;
  c10::Device device{c10::DeviceType::CPU};
  c10::Layout layout = c10::Layout::Strided;
  std::vector<Dim> sizes;
  std::vector<Dim> strides;
  Dim offset;              // storage offset, elements
  StorageId storage = -1;  // values that share memory share it; -1: own storage
  bool requires_grad = false;
  bool wrapped_number = false;  // a Python number made a 0-dim tensor: weak in type promotion
  // A constant that a backward formula made. Any other that a backward reads is one of the forward's: in eager an
  // operator saved it, and the first pass uses it up.
  bool of_formula = false;

  std::size_t rank() const { return sizes.size(); }
};

// One argument of a node. A node has one for each argument of its schema, in order, defaults included.
struct Arg {
  enum class Kind : std::uint8_t { kNone, kValue, kValueList, kConstant, kDim, kDimList };
  Kind kind = Kind::kNone;
  ValueId value = kNoValue;
  std::vector<ValueId> values;  // kValueList; kNoValue is an absent element (Tensor?[])
  c10::IValue constant;         // int, float, bool, dtype, device, layout, memory format, string, lists of these
  std::vector<Dim> dims;        // kDim: one element; kDimList. Only when something in it is symbolic

  static Arg None() { return Arg(); }
  static Arg OfValue(ValueId v);
  static Arg OfValues(std::vector<ValueId> vs);
  static Arg Constant(c10::IValue v);
  static Arg OfDim(Dim d);                // becomes kConstant if it is one
  static Arg OfDims(std::vector<Dim> d);  // becomes kConstant if all are
};

enum class Phase : std::uint8_t { kForward, kBackward };
// What eager's autograd has of a node, which a second derivative asks for.
enum class History : std::uint8_t {
  kKept,      // if gradients are kept at all
  kCut,       // recorded without a history: its results are constants
  kCutWrite,  // so is what it writes, while what is written keeps the history that it had
};

struct Node {
  OpId op = nullptr;
  std::vector<Arg> args;
  // One entry for each tensor or number that the op returns, lists flattened (list_sizes says how).
  // kNoValue: undefined, unused, or the return *is* a written argument (in-place ops define no value).
  std::vector<ValueId> outputs;
  // Empty if no return is a list; else one entry for each return: -1 not a list, n: a list of n.
  std::vector<std::int32_t> list_sizes;
  Phase phase = Phase::kForward;
  History history = History::kKept;  // not in a text
  OriginId origin = -1;
  // What is said of its results was found by examples, and may be wrong for other sizes (CheckGuessed); not in a text.
  bool guessed = false;
  std::int64_t sequence = -1;  // of the backward: the number of eager's autograd node that runs it; not in a text
  // Bit i: the i-th value that it uses, in the order of ForEachUse, was detached before; not in a text.
  std::uint64_t detached_uses = 0;
  // So too: it was read as x.data, which counts versions for itself.
  std::uint64_t uncounted_uses = 0;
};

// The user's code that a node came from.
struct Origin {
  std::string file;
  std::int32_t line = 0;
  std::string function;
  std::string source;      // text of the line
  std::string torch_call;  // torch.nn.functional.gelu
  friend bool operator==(const Origin&, const Origin&) = default;
};

enum class InputRole : std::uint8_t {
  kArgument,
  kParameter,  // may be treated as changing rarely (layout choice, folding when frozen)
  kBuffer,
  kConstant,  // the same tensor object on each call, never written
  kTangent,   // gradient of output `tangent_of`; not passed to Plan::Run
  kRngState,
};

struct Input {
  ValueId value = kNoValue;
  InputRole role = InputRole::kArgument;
  std::string name;  // for messages: x, self.fc.weight
  // The graph writes this input. Functional graphs: outputs[mutated_output] holds its new value. Recorded
  // graphs: nodes write the tensor itself and mutated_output is -1.
  bool mutated = false;
  std::int32_t mutated_output = -1;
  // The write is invisible to autograd (under no_grad or detached: running statistics).
  bool mutated_without_grad = false;
  // … and not counted by its version (x.data).
  bool mutated_uncounted = false;
  // Inputs that may overlap in memory share a class > 0; 0: overlaps nothing.
  std::int32_t overlap_class = 0;
  std::int32_t tangent_of = -1;  // index into Graph::outputs

  friend bool operator==(const Input&, const Input&) = default;
};

enum class OutputRole : std::uint8_t {
  kUser,          // returned by Plan::Run, in order
  kMutatedInput,  // new value of input `input`
  kHidden,        // a base that user outputs are views of; not returned
  kGradient,      // gradient of input `input`, or what reaches output `of_output` in a backward pass
  kUnbacked,      // defines symbol `symbol`: its size, or a number that it holds; not returned
};

enum class OutputAlias : std::uint8_t {
  kFresh,         // own tensor (its storage may be shared with a hidden base only through kViewOfOutput)
  kInput,         // input `alias_of` itself, the same tensor object
  kViewOfInput,   // view of input `alias_of`, rebuilt from it by the view nodes of the graph
  kViewOfOutput,  // view of output `alias_of` (kUser or kHidden), rebuilt likewise
  kOutput,        // output `alias_of` itself, the same tensor object
};

// Tangents: of kFresh outputs, of mutated inputs' new values, and of views that others of these were computed with.
// A view's is never given: it gets its gradients through the real view that is rebuilt, and its tangent says where a
// pass can be cut (of_output).
struct Output {
  ValueId value = kNoValue;  // kNoValue: undefined (a gradient that is not needed)
  OutputRole role = OutputRole::kUser;
  OutputAlias alias = OutputAlias::kFresh;
  std::int32_t alias_of = -1;
  std::int32_t input = -1;  // kMutatedInput, kGradient
  // kGradient without an input: the tangent of that output and what comes to it from outputs computed with it.
  std::int32_t of_output = -1;
  // When eager's engine comes here in a backward pass, smaller is earlier: an input's gradient has a number for each
  // tangent (-1: it leads elsewhere; of several the largest holds), an output with a history one, and behind that those
  // of all autograd.Functions of the pass. Empty: not known.
  std::vector<std::int32_t> turns;
  bool requires_grad = false;  // carries a grad_fn in eager
  bool spent = false;          // requires grad, but a backward pass has used its history up …
  std::string underivable;     // … or, if it is named, this operator has no derivative
  std::string grad_fn;         // the name of eager's, which the text of a tensor shows; empty: not known
  bool inference = false;      // made in inference mode, in a program that does not run in it
  // Views: made while grad mode was off, so without a history, and requires grad as its base does; no view for autograd
  // (x.detach()); both: a view of what was detached; writes are not counted with its base's (x.data).
  bool without_grad = false;
  bool detached = false;
  bool own_version = false;
  std::int32_t version = 0;  // as eager's in-place operators leave its counter
  // kUnbacked: the symbol is its size in this dimension; ~i: the number at place i of its elements.
  SymbolIndex symbol = -1;
  std::int32_t dim = 0;
  friend bool operator==(const Output&, const Output&) = default;
};

inline bool IsView(const Output& o) {
  return o.role == OutputRole::kUser && (o.alias == OutputAlias::kViewOfInput || o.alias == OutputAlias::kViewOfOutput);
}

// What the recording relied on about symbols that the graph computes. A plan checks it when it knows them, and before
// it writes anything (DeferredFailure). As the recording had it: equal sizes are not one expression yet.
struct DeferredFacts {
  ExprTable exprs;
  std::vector<Dim> facts;  // conditions
};

struct ConstantTensor {
  ValueId value = kNoValue;
  at::Tensor tensor;
};

class Graph {
 public:
  std::string name = "graph";
  std::vector<Value> values;  // by ValueId; ids need not be dense in use
  std::vector<Node> nodes;    // in execution order; all forward nodes before the first backward node
  std::vector<Input> inputs;
  std::vector<Output> outputs;
  std::vector<ConstantTensor> constants;  // small tensors held by the graph
  std::vector<Origin> origins;
  ExprTable exprs;
  std::shared_ptr<const DeferredFacts> deferred;  // null: none; not in a text
  bool functional = false;

  ValueId AddValue(Value v);
  ValueId AddInput(Value v, Input input);  // fills input.value; returns it
  ValueId AddConstant(at::Tensor t);
  OriginId AddOrigin(Origin o);  // the last equal origin is reused
  Value& value(ValueId id) { return values[static_cast<std::size_t>(id)]; }
  const Value& value(ValueId id) const { return values[static_cast<std::size_t>(id)]; }
  bool has_backward() const;
  bool has_unbacked() const;  // outputs that define symbols

  // defining node of each value (kNoNode: input, constant or unused)
  std::vector<NodeIndex> Definitions() const;
  std::vector<std::int32_t> UseCounts() const;  // by nodes and outputs
};

// Calls f(ValueId) for each value that an argument uses.
template <typename F>
void ForEachValue(const Arg& arg, F&& f) {
  if (arg.kind == Arg::Kind::kValue) f(arg.value);
  if (arg.kind == Arg::Kind::kValueList) {
    for (ValueId v : arg.values) {
      if (v != kNoValue) f(v);
    }
  }
}
template <typename F>
void ForEachUse(const Node& node, F&& f) {
  for (const Arg& a : node.args) ForEachValue(a, f);
}

// Contiguous (row-major) strides for `sizes`.
std::vector<Dim> ContiguousStrides(ExprTable& exprs, const std::vector<Dim>& sizes);
bool IsContiguous(ExprTable& exprs, const Value& v);
// Whether its elements fill a piece of memory, each with a place of its own, in whatever order; one without elements
// does. For all values of its symbols.
bool IsDense(ExprTable& exprs, const Value& v);
// A number of this type with these bits (Expr, ExprTable::Evaluate).
c10::IValue NumberOf(std::int64_t bits, NumberType type);
// Metadata of a real tensor; the storage id is left at -1.
Value DescribeTensor(const at::Tensor& t);

// Structure: ids in range, single definition before use, argument counts and kinds match the schema, phases
// ordered, contract indices in range; a functional graph has no writing node. The message names the node.
absl::Status Verify(const Graph& graph);
// Sizes, strides and dtype of each node's results, recomputed by the operator's meta kernel where there is one
// (verify_metadata.cpp). Strides are left out where the executor lays out what it computes itself.
absl::Status VerifyMetadata(const Graph& graph, bool strides_too = true);
// The same of nodes whose metadata was guessed. FailedPrecondition: it is wrong, or they refuse such sizes.
absl::Status CheckGuessed(const Graph& graph);

// Text form; Parse(Print(g)) prints the same text. Values are renumbered in order of definition.
struct PrintOptions {
  bool origins = true;
};
std::string Print(const Graph& graph, const PrintOptions& options = {});
absl::StatusOr<Graph> Parse(std::string_view text);

}  // namespace framefuse::ir

#endif  // FRAMEFUSE_BACKENDS_GRAPH_GRAPH_H_
