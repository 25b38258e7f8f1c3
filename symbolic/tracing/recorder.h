// Recorder: the graph of one capture attempt and the boxed fallback that fills it.
// Each operator that reaches DispatchKey::Fake on a thread with a current recorder becomes a node of a *recorded*
// graph (backends/graph/graph.h): in-place operators stay in place, views share their storage id.
// Invariant: every tensor that a node reads is a fake of this recording, a registered constant or a Python number.
#ifndef FRAMEFUSE_SYMBOLIC_TRACING_RECORDER_H_
#define FRAMEFUSE_SYMBOLIC_TRACING_RECORDER_H_

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "backends/graph/graph.h"
#include "symbolic/tracing/break.h"
#include "symbolic/tracing/due_warnings.h"
#include "symbolic/tracing/fake_tensor.h"
#include "symbolic/tracing/geometry_argument.h"
#include "symbolic/tracing/input_memory.h"
#include "symbolic/tracing/op_traits.h"
#include "symbolic/tracing/sized_products.h"
#include "symbolic/tracing/sizes.h"
#include "symbolic/tracing/uncounted_writes.h"

namespace framefuse::tracing {

struct RecorderStatistics {
  std::int64_t own_shapes = 0;
  std::int64_t cpp_meta = 0;
  std::int64_t composite_meta = 0;
  std::int64_t runs_for_metadata = 0;
  std::int64_t python_meta = 0;
  std::unordered_map<std::string, int> python_ops;  // by name, for the log
};

// Keys that must not act while a kernel is asked for metadata.
c10::DispatchKeySet KeysOffForMeta();

// A branch of a conditional while it is recorded (record_branch.h).
struct OpenBranch {
  std::size_t first_node = 0;
  std::vector<at::Tensor> read;  // once each, its own among them
};
struct RecordedBranch {
  std::vector<ir::Node> nodes;
  std::vector<at::Tensor> outputs;
  std::vector<at::Tensor> read;  // from outside
};

// What a later call must have the same of some values: a tensor on the CPU that is computed of them.
struct Observation {
  std::string text;  // "sizes of torch.nonzero"; empty: the one value itself
  std::function<at::Tensor(const std::vector<at::Tensor>& values)> of;
};

// Values that the recording may go on with though later calls may have others (value_reads.h).
class ValueSource {
 public:
  virtual ~ValueSource() = default;
  // The values of the fakes, if what is observed of them may be relied on.
  virtual std::optional<std::vector<at::Tensor>> RelyOn(const std::vector<at::Tensor>& fakes,
                                                        const Observation& observed) = 0;
  // Whether what follows from values here may be a symbol of the graph's own (unbacked_sizes.h).
  virtual bool TakesUnbacked() = 0;
  // Whether what the recording relies on about such a symbol can be checked when the graph has computed it.
  virtual bool ChecksUnbacked() = 0;
  // The values that the fakes have in this call, for a hint; nullopt: they cannot be computed.
  virtual std::optional<std::vector<at::Tensor>> AtHand(const std::vector<at::Tensor>& fakes) = 0;
  // A symbol was made, the last one of the table.
  virtual void AddedUnbacked() = 0;
};

class Recorder {
 public:
  Recorder();
  ~Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  // The recorder of this thread, or null. Set while the Fake TLS is on.
  static Recorder* Current();
  static void SetCurrent(Recorder* recorder);
  // Registers the fallback on DispatchKey::Fake, once a process.
  static void Install();

  // Runs an operator: the arguments on the stack are replaced by its results.
  void Record(const c10::OperatorHandle& handle, torch::jit::Stack* stack);
  // As RecordPlain, of an operator whose results are known to be like `results`, each in memory of its own.
  void RecordAs(const OpTraits& traits, torch::jit::Stack* stack, const torch::jit::Stack& results);
  // As Record, past the special cases.
  void RecordPlain(const OpTraits& traits, torch::jit::Stack* stack);

  ir::Graph& graph() { return graph_; }
  Sizes& sizes() { return *sizes_; }
  std::uint64_t id() const { return id_; }
  ir::Phase phase = ir::Phase::kForward;
  // Asked once an op; -1: unknown. The ids are the caller's.
  std::int32_t (*origin_callback)(void*) = nullptr;
  void* origin_context = nullptr;
  ValueSource* values = nullptr;  // null: none
  Surroundings around;

  std::vector<OpenBranch> open_branches;  // innermost last
  std::vector<RecordedBranch> recorded_branches;
  std::vector<std::function<void()>> cut_histories;  // of what conditionals under way may read, innermost last
  absl::flat_hash_set<ir::ValueId> left_graph;       // made by nodes of branches

  // An input's own sizes and strides are changed, by a method and numbers: to be done again behind the graph.
  struct GeometryWrite {
    const FakeImpl* input;
    std::string method;
    std::vector<GeometryArgument> arguments;
  };
  std::vector<GeometryWrite> geometry_writes;
  UncountedWrites uncounted_writes;
  absl::flat_hash_set<ir::StorageId> storages_with_room;  // a tensor grew, because its storage had room for it

  // Symbols that the graph defines: by a size of a value, or by a number that it holds (as in ir::Output).
  struct UnbackedSymbol {
    ir::SymbolIndex symbol;
    ir::ValueId value;
    std::int32_t dim;
  };
  std::vector<UnbackedSymbol> unbacked;
  std::int64_t CountGeometryWrites(const FakeImpl* input) const;

  // The next operator compares a tensor with `value`, and a NaN is to equal a NaN.
  void ExpectComparison(ir::ValueId value) { expected_comparison_ = value; }
  bool expects_comparison() const { return expected_comparison_ != ir::kNoValue; }
  // The next operator divides a product by its elements, of which `zeros` are zero (product_gradient.h).
  void ExpectQuotient(at::Tensor zeros) { product_.zeros = std::move(zeros); }
  // A quotient is expected, of an input with these zeros (cumulative_product_gradient.h).
  struct CumulativeProduct {
    ir::ValueId is_zero;
  };
  std::optional<CumulativeProduct> cumulative_product;
  void NoteNegated() { has_negated_ = true; }
  // A value for `t`, or a break if it is neither a fake of this recording, nor registered, nor a number.
  ir::ValueId ValueOf(const at::Tensor& t, const OpTraits& traits);
  // Makes `real` (never written) a constant of the graph. The graph keeps a detached alias.
  ir::ValueId AddConstant(const at::Tensor& real);
  // The constant's fake; one a constant.
  at::Tensor ConstantFake(const at::Tensor& real);
  // Fresh host data: the values as they are now, a new tensor on each run of the graph.
  at::Tensor FreshFromHost(const at::Tensor& real);

  ir::StorageId NewStorage() { return next_storage_++; }
  // A fake of this recording over a new value; `storage` null: fresh memory.
  at::Tensor NewFake(const OutputMeta& meta, c10::Device device, const c10::Storage* storage, ir::StorageId storage_id);
  ir::Dim ToDim(const c10::SymInt& s) const;

  void SetPendingBreak(TensorBreak b);
  const std::optional<TensorBreak>& pending_break() const { return pending_break_; }
  [[noreturn]] void Break(BreakKind kind, const OpTraits& traits, std::string explanation, std::string hint = {});

  // The last error that came out of an operator.
  void NoteError(const c10::OperatorHandle& handle, const c10::Error& error);
  std::string& error() { return error_; }
  // Whether an error says that something is a fake, which no real tensor would get.
  static bool IsAboutFakes(std::string_view text);

  // Inputs may have their memory written, never their metadata.
  void MarkInput(ir::ValueId value, bool is_inference);
  bool IsInput(ir::ValueId value) const;
  InputMemory& input_memory() { return input_memory_; }
  const RecorderStatistics& statistics() const { return statistics_; }

  // True while our own code may run Python (meta kernels): frames entered then are not the program's.
  static bool InOwnPython();

 private:
  // A node on its way into the graph.
  struct Prepared {
    ir::Node node;
    std::optional<c10::Device> device;
    bool device_from_scalar = false;
    torch::jit::Stack numbers;  // returns that are no tensors, by return; empty if all are
  };
  void BuildArguments(const OpTraits& traits, c10::ArrayRef<c10::IValue> args, Prepared* prepared);
  void NoteTensor(const at::Tensor& t, const OpTraits& traits, Prepared* prepared);
  ir::Arg TensorListArg(const c10::IValue& v, const OpTraits& traits, Prepared* prepared);
  ir::Arg NumberArg(const c10::IValue& v, const OpTraits& traits) const;
  void CheckLayouts(const OpTraits& traits, c10::ArrayRef<c10::IValue> args);
  void CheckWrites(const OpTraits& traits, c10::ArrayRef<c10::IValue> args);
  void CheckWarnings(const OpTraits& traits, c10::ArrayRef<c10::IValue> args,
                     const std::optional<std::string>& of_probe, const Outputs& outputs);
  void CheckOperands(const OpTraits& traits, c10::ArrayRef<c10::IValue> args);
  bool InferOwn(const OpTraits& traits, c10::ArrayRef<c10::IValue> args, Outputs* outputs) const;
  void InferByKernel(const OpTraits& traits, c10::ArrayRef<c10::IValue> args, Prepared* prepared, Outputs* outputs);
  // False: another way has to be taken (infer_by_run.cpp).
  bool InferByRun(const OpTraits& traits, c10::ArrayRef<c10::IValue> args, Prepared* prepared, Outputs* outputs);
  torch::jit::Stack MetaArguments(const OpTraits& traits, c10::ArrayRef<c10::IValue> args) const;
  void InferMeta(const OpTraits& traits, c10::ArrayRef<c10::IValue> args, Prepared* prepared, Outputs* outputs);
  void InferComposite(const OpTraits& traits, c10::ArrayRef<c10::IValue> args, Prepared* prepared, Outputs* outputs);
  void DescribeResults(const OpTraits& traits, c10::ArrayRef<c10::IValue> args, const torch::jit::Stack& results,
                       Prepared* prepared, Outputs* outputs);
  void Emit(const OpTraits& traits, Prepared* prepared, const Outputs& outputs, torch::jit::Stack* stack);
  void CompareWithNans(const OpTraits& traits, torch::jit::Stack* stack);
  // An operator of a product's derivative (product_gradient.h); false: it is none.
  bool ContinueProduct(const OpTraits& traits, torch::jit::Stack* stack);
  void DivideProduct(const OpTraits& traits, torch::jit::Stack* stack);
  void ScaleProduct(torch::jit::Stack* stack);
  void ResolveNegated(const OpTraits& traits, torch::jit::Stack* stack);
  at::Tensor EmitOutput(const OutputMeta& meta, c10::ArrayRef<c10::IValue> args, const Prepared& prepared);
  ir::ValueId NumberConstant(const at::Tensor& wrapped);
  void NoteRead(const at::Tensor& t, ir::ValueId value, const OpTraits& traits);

  ir::Graph graph_;
  std::shared_ptr<Sizes> sizes_;
  std::uint64_t id_;
  ir::StorageId next_storage_ = 0;
  ir::ValueId composite_first_value_ = -1;  // made by the composite kernel that is being inferred; -1: none is
  std::optional<TensorBreak> pending_break_;
  std::string error_;
  ir::ValueId expected_comparison_ = ir::kNoValue;
  struct {
    at::Tensor zeros, hidden;
  } product_;                 // whose derivative is under way
  bool has_negated_ = false;  // a fake with the negative bit was made
  absl::flat_hash_map<c10::TensorImpl*, ir::ValueId> constants_;
  absl::flat_hash_map<c10::TensorImpl*, at::Tensor> constant_fakes_;
  // Python numbers in tensor arguments, by type, bits and whether a backward formula made them.
  absl::flat_hash_map<std::tuple<int, std::uint64_t, bool>, ir::ValueId> numbers_;
  absl::flat_hash_set<const void*> forward_numbers_;  // their memory
  absl::flat_hash_set<ir::ValueId> constant_values_;
  std::vector<at::Tensor> kept_;  // keeps the keys of the maps alive
  std::vector<bool> is_input_;    // by value
  absl::flat_hash_set<ir::StorageId> inference_storages_;
  InputMemory input_memory_;
  std::vector<c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>>
      written_;  // fakes, and what they are views of
  RecorderStatistics statistics_;
};

// Makes the recorder current and turns its dispatch keys on for this thread; or off, for stretches of native code.
class TlsScope {
 public:
  explicit TlsScope(Recorder* recorder);
  ~TlsScope();
  TlsScope(const TlsScope&) = delete;
  TlsScope& operator=(const TlsScope&) = delete;

 private:
  Recorder* previous_;
  bool previous_included_;
  bool previous_multithreading_;
  SizedProductsScope products_;
  std::optional<AllWarningsSaid> said_;
  std::optional<DueWarningsHeard> heard_;
};

}  // namespace framefuse::tracing

#endif  // FRAMEFUSE_SYMBOLIC_TRACING_RECORDER_H_
