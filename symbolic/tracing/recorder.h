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
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backends/graph/graph.h"
#include "symbolic/tracing/break.h"
#include "symbolic/tracing/due_warnings.h"
#include "symbolic/tracing/fake_tensor.h"
#include "symbolic/tracing/gradient_formulas.h"
#include "symbolic/tracing/op_traits.h"
#include "symbolic/tracing/recorded_branches.h"
#include "symbolic/tracing/recorded_constants.h"
#include "symbolic/tracing/recorded_inputs.h"
#include "symbolic/tracing/recorded_writes.h"
#include "symbolic/tracing/recording_errors.h"
#include "symbolic/tracing/result_inference.h"
#include "symbolic/tracing/sized_products.h"
#include "symbolic/tracing/sizes.h"

namespace framefuse::tracing {

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

// Where in the program an operator is called. Asked once an operator; -1: unknown. The ids are its own.
class OpOrigins {
 public:
  virtual ~OpOrigins() = default;
  virtual std::int32_t OfOp() = 0;
};

// Symbols that the graph defines: by a size of a value, or by a number that it holds (as in ir::Output).
struct UnbackedSymbol {
  ir::SymbolIndex symbol;
  ir::ValueId value;
  std::int32_t dim;
};

class Recorder {
 public:
  explicit Recorder(OpOrigins* origins);
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
  ir::Phase phase() const { return phase_; }
  void SetPhase(ir::Phase phase) { phase_ = phase; }
  std::int32_t OriginOfOp() const { return origins_->OfOp(); }
  ValueSource* values() const { return values_; }  // null: none
  void SetValues(ValueSource* values) { values_ = values; }
  Surroundings& around() { return around_; }

  // By duty.
  RecordedConstants& constants() { return constants_; }
  RecordedInputs& inputs() { return inputs_; }
  RecordedWrites& writes() { return writes_; }
  RecordedBranches& branches() { return branches_; }
  GradientFormulas& formulas() { return formulas_; }
  RecordingErrors& errors() { return errors_; }
  const RecorderStatistics& statistics() const { return inference_.statistics(); }

  const std::vector<UnbackedSymbol>& unbacked() const { return unbacked_; }
  void AddUnbacked(const UnbackedSymbol& symbol) { unbacked_.push_back(symbol); }
  void NoteNegated() { has_negated_ = true; }

  // A value for `t`, or a break if it is neither a fake of this recording, nor registered, nor a number.
  ir::ValueId ValueOf(const at::Tensor& t, const OpTraits& traits);
  // Fresh host data: the values as they are now, a new tensor on each run of the graph.
  at::Tensor FreshFromHost(const at::Tensor& real);
  ir::StorageId NewStorage() { return next_storage_++; }
  // A fake of this recording over a new value; `storage` null: fresh memory.
  at::Tensor NewFake(const OutputMeta& meta, c10::Device device, const c10::Storage* storage, ir::StorageId storage_id);
  ir::Dim ToDim(const c10::SymInt& s) const;

  void SetPendingBreak(TensorBreak b) { errors_.SetBreak(std::move(b)); }
  const std::optional<TensorBreak>& pending_break() const { return errors_.pending_break(); }
  [[noreturn]] void Break(BreakKind kind, const OpTraits& traits, std::string explanation, std::string hint = {});

 private:
  void ResolveNegated(const OpTraits& traits, torch::jit::Stack* stack);

  OpOrigins* const origins_;
  ir::Graph graph_;
  std::shared_ptr<Sizes> sizes_;
  std::uint64_t id_;
  ir::Phase phase_ = ir::Phase::kForward;
  ir::StorageId next_storage_ = 0;
  ValueSource* values_ = nullptr;
  Surroundings around_;
  std::vector<UnbackedSymbol> unbacked_;
  bool has_negated_ = false;  // a fake with the negative bit was made
  std::vector<at::Tensor> waited_for_;
  RecordedConstants constants_;
  RecordedInputs inputs_;
  RecordedWrites writes_;
  RecordedBranches branches_;
  GradientFormulas formulas_;
  RecordingErrors errors_;
  ResultInference inference_;
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
