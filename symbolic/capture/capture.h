// Capture: one attempt to evaluate a frame on fakes. It is the meaning (Protocols) that the evaluator is given,
// and the hook's handler for every Python frame that a call of the evaluator's starts, also through C.
// It keeps the three journals: reads → guards, tensor operations → the tracer's graph, writes → overlays.
// Invariant: no object that existed before is changed; every read of one has a guard; a break sets
// control.unwinding and is never undone (soundness rules 1-14). Lives on the stack of attempt.cpp's driver.
#ifndef FRAMEFUSE_SYMBOLIC_CAPTURE_CAPTURE_H_
#define FRAMEFUSE_SYMBOLIC_CAPTURE_CAPTURE_H_

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/attributes.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "frame_eval/hook.h"
#include "guards/guard.h"
#include "guards/source.h"
#include "symbolic/capture/call_rules.h"
#include "symbolic/capture/capture_position.h"
#include "symbolic/capture/class_statements.h"
#include "symbolic/capture/fakes.h"
#include "symbolic/capture/function_modes.h"
#include "symbolic/capture/fx_journal.h"
#include "symbolic/capture/graph_break.h"
#include "symbolic/capture/journals/backward_phase.h"
#include "symbolic/capture/journals/break_controller.h"
#include "symbolic/capture/journals/frame_stack.h"
#include "symbolic/capture/journals/native_arguments.h"
#include "symbolic/capture/journals/native_boundary.h"
#include "symbolic/capture/journals/object_contents.h"
#include "symbolic/capture/journals/object_table.h"
#include "symbolic/capture/journals/read_journal.h"
#include "symbolic/capture/journals/write_journal.h"
#include "symbolic/capture/tensor_types.h"
#include "symbolic/capture/torch_state.h"
#include "symbolic/capture/tracked.h"
#include "symbolic/evaluator/evaluator.h"
#include "symbolic/evaluator/native_protocols.h"
#include "symbolic/evaluator/protocols.h"
#include "symbolic/tracing/tracer.h"

namespace framefuse {

class Capture final : public Protocols, public FrameHandler {
 public:
  using Args = absl::Span<const ValueView>;
  Capture(PyThreadState* thread, frame_ops::Frame* real_frame, const CaptureOptions& options);
  ~Capture() override;

  RunResult Run();  // evaluates a copy of the frame from where it stands

  // ---- the parts
  FrameStack& frames() { return frames_; }
  BreakController& breaks() { return breaks_; }
  NativeBoundary& boundary() { return boundary_; }
  ReadJournal& reads() { return reads_; }
  WriteJournal& writes() { return writes_; }
  ObjectTable& objects() { return objects_; }
  NativeArguments& arguments() { return arguments_; }

  // ---- what the attempt found (attempt.cpp, close.cpp)
  int last_root_instruction() const { return last_root_instruction_; }
  bool evaluated() const { return evaluated_; }  // false: broke before the first instruction

  tracing::Tracer& tracer() { return tracer_; }
  FxJournal& fx() { return fx_; }
  ClassStatements& classes() { return classes_; }
  const TorchState& start_state() const { return start_state_; }
  const Ref& start_exception() const { return start_exception_; }
  // Of the root's level, where the attempt stands or ended.
  Ref HandledException() const { return frames_.has_root() ? frame_ops::HandledException(thread_) : end_exception_; }
  // Builds a tensor from guarded host data for real; the graph holds a copy of it.
  Value MakeHostTensor(BorrowedRef callable, Args args, BorrowedRef kwnames);

  Value ClassItem(Activation& act, ValueView cls, ValueView key);
  // ---- attributes (capture_attributes.cpp)
  bool GoesFirst(BorrowedRef descriptor);
  bool ReducesPlainly(ValueView self, BorrowedRef protocol);
  BorrowedRef CMethodOf(ValueView owner, BorrowedRef name) const;
  Value GenericGetAttr(Activation& act, ValueView owner, BorrowedRef name, bool suppress_missing);
  Value CallMissingHook(Activation& act, ValueView owner, BorrowedRef name);  // the type's __getattr__
  Value MemberOfModule(ValueView module, BorrowedRef name);
  bool SetThroughDescriptor(Activation& act, BorrowedRef descriptor, ValueView owner, BorrowedRef name,
                            ValueView value_or_null);
  bool GenericSetAttr(Activation& act, ValueView owner, BorrowedRef name, ValueView value_or_null);
  // A member descriptor's value: the slot of a class with __slots__ or a field of a C type.
  Value ReadGetSet(BorrowedRef descriptor, ValueView owner, PyTypeObject* type);
  Value ReadMember(BorrowedRef descriptor, ValueView owner, PyTypeObject* type);
  Value BindDescriptor(Activation& act, BorrowedRef descriptor, SourceId source, ValueView owner, PyTypeObject* type);
  Value TypeGetAttr(Activation& act, ValueView owner, BorrowedRef name);
  Value ModuleGetAttr(Activation& act, ValueView owner, BorrowedRef name);
  Value TensorGetAttr(Activation& act, ValueView owner, BorrowedRef name);
  void GuardGradient(const Tracked& tensor, BorrowedRef seen);
  Value SuperGetAttr(Activation& act, ValueView super_object, BorrowedRef name);

  // ---- calls (capture_calls.cpp)
  Value CallWith(Activation& act, ValueView callable, Args args, BorrowedRef kwnames, Completion completion);
  Value CallFunction(Activation& act, ValueView function, Args args, BorrowedRef kwnames, Completion completion,
                     Ref pending = nullptr);
  bool SeesMemo(Activation& act, PyCodeObject* code, Args args) const;
  // ---- torch.nn.Module.__call__ (capture_module_calls.cpp)
  std::optional<Value> CallModule(Activation& act, Args args, BorrowedRef kwnames, Completion completion);
  BorrowedRef OnlyInType(Tracked& instance, BorrowedRef name);
  bool HasNoHooks(Activation& act, ValueView module, BorrowedRef call_impl);
  bool HasNoHooksForAll(Activation& act, BorrowedRef globals);
  Value CallType(Activation& act, ValueView type, Args args, BorrowedRef kwnames, Completion completion);
  Value NewByBuiltin(PyTypeObject* type, Args args, BorrowedRef kwnames);
  Value Initialise(Activation& act, Value object, Args args, BorrowedRef kwnames, Completion completion);
  Value CallBuiltinOfType(Activation& act, ValueView callable, Args args, BorrowedRef kwnames);
  Value CallBuiltin(Activation& act, ValueView callable, Args args, BorrowedRef kwnames);
  // A C method of a type with its self as first argument; then by whose method it is.
  Value CallDescriptor(Activation& act, ValueView callable, Args args, BorrowedRef kwnames);
  Value CallMethodWrapper(Activation& act, ValueView callable, Args args, BorrowedRef kwnames);
  Value CallMethodOfObject(Activation& act, ValueView callable, absl::string_view name, Args args, BorrowedRef kwnames);
  std::optional<Value> CallMethodOfTrackedDict(Tracked& t, absl::string_view name, Args args);
  Value PopFromInstanceDict(Tracked& t, Args args);
  Value CallMethodOfBuiltin(ValueView callable, const MethodFacts& method, Args args, BorrowedRef kwnames);
  Value CallInstance(Activation& act, ValueView callable, Args args, BorrowedRef kwnames, Completion completion);
  // ---- text (capture_text.cpp)
  Value TextByMethod(Activation& act, ValueView v, const char* method, Args args);
  Value TextOf(Activation& act, SpecialCall which, Args args);
  Value TextOfException(ValueView v, bool repr);
  // ---- torch.autograd.Function (capture_autograd.cpp)
  Value ApplyAutogradFunction(BorrowedRef apply, PyTypeObject* function, Args args, BorrowedRef kwnames);
  absl::StatusOr<tracing::TracedGraph> CloseGraph(absl::Span<const BorrowedRef> outputs);
  // Runs C code on prepared arguments and journals the torch-level call if a fake took part.
  Value CallNumpy(ValueView callable, Args args, BorrowedRef kwnames);
  Value CallNative(BorrowedRef callable, Args args, BorrowedRef kwnames);
  Value CallTorch(Activation& act, BorrowedRef callable, Args args, BorrowedRef kwnames);
  bool Journalled(std::string_view error) {
    return error.empty() || breaks_.BreakFalse(GraphBreakKind::kAutograd, error);
  }
  // ---- functools.lru_cache (capture_cached_calls.cpp)
  Value CallCached(Activation& act, ValueView callable, Args args, BorrowedRef kwnames);
  Value MissCached(Activation& act, CachedCall call, Ref key, BorrowedRef function, Args args, BorrowedRef kwnames);
  bool CollectCachedArguments(Args args, BorrowedRef kwnames, CachedCall* call, Ref* key);
  bool IsForTorch() const;
  BorrowedRef CacheKeyPart(ValueView arg);
  void ImportOfLibrary(BorrowedRef name, BorrowedRef fromlist);
  Value CallPartial(Activation& act, ValueView partial, Args args, BorrowedRef kwnames);
  Value TargetOf(ValueView weakref, const Tracked& tracked);
  Value CallMethodCaller(Activation& act, ValueView caller, Args args, BorrowedRef kwnames);
  Value CallAttrGetter(Activation& act, ValueView getter, Args args, BorrowedRef kwnames);
  Value CallAbcCheck(Activation& act, ValueView callable, Args args, bool of_instance);
  Value CallSpecial(Activation& act, SpecialCall which, ValueView callable, Args args, BorrowedRef kwnames);
  Value CallAttributeBuiltin(Activation& act, SpecialCall which, ValueView callable, Args args, BorrowedRef kwnames);
  Value CallTypeBuiltin(Activation& act, SpecialCall which, ValueView callable, Args args, BorrowedRef kwnames);
  Value CallObjectBuiltin(Activation& act, SpecialCall which, ValueView callable, Args args, BorrowedRef kwnames);
  Value NextOf(Activation& act, Args args);
  Value HashOf(ValueView callable, Args args);
  Value CallListWriter(ValueView callable, Args args, BorrowedRef kwnames);
  Value CallOfLibrary(SpecialCall which, ValueView callable, Args args, BorrowedRef kwnames);
  // ---- torch.func's transforms and torch function modes (call_transform.cpp)
  Value CallTransformation(Activation& act, BorrowedRef function, Args args, BorrowedRef kwnames);
  Value CallOfFunctionModes(SpecialCall which, ValueView callable, Args args, BorrowedRef kwnames);
  Value CallOtherSpecial(Activation& act, SpecialCall which, ValueView callable, Args args, BorrowedRef kwnames);
  // ---- cond() on a tensor (call_cond.cpp)
  Value CallCond(Activation& act, Args args);
  Value CallCheckpoint(Activation& act, Args args);
  Value CallBranch(Activation& act, GraphBreakKind kind, ValueView branch, Args operands,
                   const std::vector<Ref>& roots);
  Value CallJoined(Activation& act, GraphBreakKind kind, ValueView condition, ValueView yes, ValueView no);
  void BeginConditional(std::vector<Ref>* roots);
  Value SignatureOf(ValueView callable, ValueView function);
  struct ExpectedCall {
    PyObject* function = nullptr;
    Completion completion = Completion::kCallback;
    Ref pending;
    Args args;
  };
  void Expect(ExpectedCall call) { expected_ = std::move(call); }

  // ---- FrameHandler
  PyObject* OnFrame(PyThreadState* thread, frame_ops::Frame* frame, int throw_flag) override;

  // ---- Protocols
  StopAction OnStop(Activation& act) override { return breaks_.OnStop(act); }
  void SeeUnbound(Activation& act, int slot) override;
  bool BeforeDrop(Activation&, ValueView old) override { return writes_.BeforeDrop(old); }
  Value AdoptSlot(Activation& act, int slot) override;
  Value LoadGlobal(Activation& act, BorrowedRef name) override;
  bool StoreGlobal(Activation& act, BorrowedRef name, ValueView value) override;
  bool DeleteGlobal(Activation& act, BorrowedRef name) override;
  Value LoadName(Activation& act, BorrowedRef name) override;
  bool StoreName(Activation& act, BorrowedRef name, ValueView value) override;
  bool DeleteName(Activation& act, BorrowedRef name) override;
  Value MakeCell(Activation& act, int slot, ValueView initial) override;
  Value LoadDeref(Activation& act, int slot) override;
  bool StoreDeref(Activation& act, int slot, ValueView value) override;
  bool DeleteDeref(Activation& act, int slot) override;
  Value LoadClassDeref(Activation& act, int slot) override;
  Value LoadFromDictOrDeref(Activation& act, ValueView mapping, int slot) override;
  Value LoadFromDictOrGlobals(Activation& act, ValueView mapping, BorrowedRef name) override;
  Value LoadBuildClass(Activation& act) override;
  Value LoadLocals(Activation& act) override;
  bool SetupAnnotations(Activation& act) override;
  Value LoadAttr(Activation& act, ValueView owner, BorrowedRef name) override;
  Value LoadMethod(Activation& act, ValueView owner, BorrowedRef name, Value* self) override;
  Value LoadSuperAttr(Activation& act, ValueView global_super, ValueView cls, ValueView self, BorrowedRef name,
                      bool two_argument, bool is_method, Value* method_self) override;
  bool StoreAttr(Activation& act, ValueView owner, BorrowedRef name, ValueView value) override;
  bool DeleteAttr(Activation& act, ValueView owner, BorrowedRef name) override;
  Value Unary(Activation& act, UnaryOp op, ValueView v) override;
  Value Binary(Activation& act, int nb_op, ValueView left, ValueView right) override;
  Value Compare(Activation& act, int py_op, ValueView left, ValueView right) override;
  Truth Is(Activation& act, ValueView left, ValueView right) override;
  Truth Contains(Activation& act, ValueView item, ValueView container) override;
  Truth IsTrue(Activation& act, ValueView v) override;
  std::optional<bool> TruthOfAttr(Activation& act, ValueView owner, BorrowedRef name) override;
  Truth IsNone(Activation& act, ValueView v) override;
  Value GetItem(Activation& act, ValueView container, ValueView key) override;
  bool SetItem(Activation& act, ValueView container, ValueView key, ValueView value) override;
  bool DeleteItem(Activation& act, ValueView container, ValueView key) override;
  Value Call(Activation& act, ValueView callable, Args args, BorrowedRef kwnames) override;
  Value CallEx(Activation& act, ValueView callable, ValueView args, ValueView kwargs_or_null) override;
  Value GetIter(Activation& act, ValueView v) override;
  Value GetYieldFromIter(Activation& act, ValueView v) override;
  ForIterOutcome ForIter(Activation& act, ValueView iterator, Value* item) override;
  SendOutcome Send(Activation& act, ValueView receiver, ValueView sent, Value* result) override;
  bool UnpackSequence(Activation& act, ValueView v, absl::Span<Value> out) override;
  bool UnpackEx(Activation& act, ValueView v, int before, int after, absl::Span<Value> out) override;
  Value BuildTuple(Activation& act, Args items) override;
  Value BuildList(Activation& act, Args items) override;
  Value BuildSet(Activation& act, Args items) override;
  Value BuildMap(Activation& act, Args keys_and_values) override;
  Value BuildConstKeyMap(Activation& act, BorrowedRef keys, Args values) override;
  Value BuildString(Activation& act, Args parts) override;
  Value BuildSlice(Activation& act, ValueView start, ValueView stop, ValueView step_or_null) override;
  bool ListAppend(Activation& act, BorrowedRef list, ValueView item) override;
  bool SetAdd(Activation& act, BorrowedRef set, ValueView item) override;
  bool MapAdd(Activation& act, BorrowedRef map, ValueView key, ValueView value) override;
  bool ListExtend(Activation& act, BorrowedRef list, ValueView iterable) override;
  bool SetUpdate(Activation& act, BorrowedRef set, ValueView iterable) override;
  bool DictUpdate(Activation& act, BorrowedRef dict, ValueView mapping) override;
  bool DictMerge(Activation& act, BorrowedRef dict, ValueView mapping, BorrowedRef callable) override;
  Value ListToTuple(Activation& act, ValueView list) override;
  Value ConvertValue(Activation& act, ValueView v, int conversion) override;
  Value FormatValue(Activation& act, ValueView v, int conversion, ValueView spec_or_null) override;
  Value MakeFunction(Activation& act, BorrowedRef code, ValueView defaults, ValueView kwdefaults, ValueView annotations,
                     ValueView closure) override;
  bool SetFunctionAttribute(Activation& act, BorrowedRef function, int flag, ValueView part) override;
  bool BeforeWith(Activation& act, ValueView manager, Value* exit, Value* entered) override;
  Value CallExit(Activation& act, ValueView exit, BorrowedRef type, BorrowedRef exception,
                 BorrowedRef traceback) override;
  Value GetLength(Activation& act, ValueView v) override;
  Truth MatchMapping(Activation& act, ValueView v) override;
  Truth MatchSequence(Activation& act, ValueView v) override;
  Value MatchKeys(Activation& act, ValueView subject, ValueView keys) override;
  Value MatchClass(Activation& act, ValueView subject, ValueView cls, int positional, ValueView names) override;
  Truth ExceptionMatches(Activation& act, ValueView exception, ValueView type) override;
  bool ExceptionGroupMatch(Activation& act, ValueView exception, ValueView type, Value* match, Value* rest) override;
  Value PrepareReraiseStar(Activation& act, ValueView original, ValueView results) override;
  bool BeforeHandling(Activation& act) override;
  bool AfterHandling(Activation& act, ValueView previous) override;
  void Raise(Activation& act, ValueView exception_or_null, ValueView cause_or_null) override;
  Value ImportName(Activation& act, BorrowedRef name, ValueView fromlist, ValueView level) override;
  Value ImportFrom(Activation& act, ValueView module, BorrowedRef name) override;
  bool ImportStar(Activation& act, ValueView module) override;
  Value Intrinsic1(Activation& act, int which, ValueView v) override;
  Value Intrinsic2(Activation& act, int which, ValueView a, ValueView b) override;
  bool Unsupported(Activation& act, const char* opcode_name) override;

 private:
  // A global, by what it was at the first read.
  struct GlobalRead {
    BorrowedRef object;
    SourceId source = kNoSource;
    Ref leaf;
  };

  void PrepareFrameSlots(Activation& act, const ExpectedCall& call);
  bool BelongsToTorchLeaf(frame_ops::Frame* frame) const;
  PyObject* EvaluateFrame(Activation& act, StartAt start);
  PyObject* ThrowIntoGenerator(frame_ops::Frame* frame);
  bool BreaksAsItStarts(frame_ops::Frame* frame);
  BorrowedRef GlobalsOf(Activation& act);
  Value ReadGlobal(Activation& act, BorrowedRef name);
  SourceId GlobalsSource(Activation& act);
  SourceId BuiltinsSource(Activation& act);
  bool GuardIterable(Activation& act, ValueView v, const char* what);

  ClassStatements classes_{*this};  // ends last
  PyThreadState* thread_;
  CaptureOptions options_;
  FrameStack frames_;
  FunctionModes modes_;
  BreakController breaks_{control, frames_, tracer_, classes_, modes_};
  BackwardPhase backward_{frames_, breaks_};
  NativeBoundary boundary_{options_, frames_, breaks_, tracer_};
  ReadJournal reads_{frames_, breaks_, backward_, classes_};
  ObjectTable objects_{frames_, breaks_, boundary_, reads_, tracer_};
  WriteJournal writes_{breaks_, reads_, objects_.tracked()};
  ObjectContents contents_{breaks_, reads_, writes_, objects_};
  NativeArguments arguments_{breaks_, reads_, objects_, contents_};
  tracing::Tracer tracer_;
  FxJournal fx_;
  NativeProtocols native_;
  ExpectedCall expected_;
  TorchState start_state_;
  Ref start_exception_;  // handled when the attempt began
  Ref end_exception_;
  bool handles_from_outside_ = false;          // it began in an except block, its own or a caller's
  bool has_memo_ = false;                      // a deep copy is under way that made its memo
  bool applied_functions_ = false;             // of torch.autograd
  std::vector<const Tracked*> hooks_for_all_;  // torch's dicts of hooks of all modules, once looked at and empty
  PyObject* hooks_globals_ = nullptr;          // where they stand
  absl::flat_hash_map<std::pair<PyObject*, PyObject*>, GlobalRead> global_reads_;  // by globals dict and name
  int last_root_instruction_ = 0;
  bool evaluated_ = false;
};

bool IsAutogradFunction(BorrowedRef type);  // a class derived from torch.autograd.Function

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_CAPTURE_CAPTURE_H_
