// Call rules: which C callables capture may run, by identity (call_rules.def) or as a method of an exact
// builtin type. Invariant: the table is filled once from live modules and only grows (allow_in_graph,
// compatibility spellings); a callable that is not in it is denied.
#ifndef FRAMEFUSE_SYMBOLIC_RULES_CALL_RULES_H_
#define FRAMEFUSE_SYMBOLIC_RULES_CALL_RULES_H_

#include <cstdint>
#include <optional>
#include <string_view>

#include "absl/strings/string_view.h"
#include "frame_eval/ref.h"
#include "symbolic/messages/graph_break.h"

namespace framefuse {

enum class SpecialCall : std::uint8_t {
#define FF_SPECIAL_CALL(which, family) which,
#include "symbolic/rules/special_calls.def"
#undef FF_SPECIAL_CALL
};
enum class SpecialFamily : std::uint8_t { kAttribute, kType, kObject, kText, kTorch, kOther };
SpecialFamily FamilyOf(SpecialCall which);

struct CallRule {
  enum class Kind : std::uint8_t {
    kPure,
    kMoves,
    kPlain,
    kNumpy,
    kTorch,
    kSpecial,
    kBreaks,
    kDeferred,  // made when the entry runs, for objects that are there then
  };
  Kind kind = Kind::kPure;
  SpecialCall special = SpecialCall::kGetAttr;
  GraphBreakKind break_kind = GraphBreakKind::kUnlistedCallable;
  bool sets_torch_state = false;  // a node of an FX graph even where no tensor takes part
  bool calls_back = false;        // calls an argument, and shows it to nobody
};

// What is known of a callable by its identity.
struct KnownCallable {
  std::optional<CallRule> rule;
  Ref substitute;              // in captured code a call of the callable is a call of this one
  bool of_torch_only = false;  // in torch's own captured code
};

// Fills the table at its first use. Null: nothing is known.
const KnownCallable* FindKnownCallable(BorrowedRef callable);
const CallRule* FindCallRule(BorrowedRef callable);  // null: none by identity
// Adds or replaces; keeps the callable alive.
void AddCallRule(BorrowedRef callable, CallRule rule);

void AddSubstitute(BorrowedRef callable, BorrowedRef replacement, bool of_torch_only);
BorrowedRef FindSubstitute(BorrowedRef callable);  // null: none

// Fills the tables below and above now: imports have no place in a capture.
void LoadCallRules();

// How a method `name` of an exact builtin type behaves towards its self.
enum class MethodEffect : std::uint8_t { kUnlisted, kReads, kWrites };
MethodEffect BuiltinMethodEffect(PyTypeObject* type, std::string_view name);
// A method of list, tuple or dict that moves or counts items, looks at none of them and returns nothing that reads
// them later.
bool MovesItemsOnly(PyTypeObject* type, std::string_view name);

// A C method of a type, by its descriptor.
struct MethodFacts {
  absl::string_view name;  // as long as the descriptor lives
  MethodEffect effect = MethodEffect::kUnlisted;
  bool moves_items_only = false;
};
MethodFacts FactsOf(PyDescrObject* descriptor);

// True for builtin torch functions that go through the dispatcher (torch._C._VariableFunctions, torch._C._nn …).
bool IsDispatcherFunction(BorrowedRef builtin);
// True for Python functions of torch that are run as they are when their arguments are plain
// (torch.nn.functional and the like).
bool IsTorchLeafFunction(BorrowedRef function);
enum class KnownFunction : std::uint8_t {
  kNone,
  kGrad,            // torch.autograd.grad
  kEngine,          // what starts torch's autograd engine
  kModuleGetAttr,   // torch.nn.Module.__getattr__, if it looks in _parameters, _buffers and _modules, and nowhere else
  kModuleCall,      // torch.nn.Module.__call__, if it does no more than call _call_impl
  kModuleCallImpl,  // torch.nn.Module._call_impl, if what comes before forward() is the known search for hooks
  kHiddenFromDynamo,        // what torch._compile._disable_dynamo makes of a function, its __wrapped__
  kDeepCopy,                // copy.deepcopy
  kDispatch,                // what finds a function of functools.singledispatch for a class
  kMakesClass,              // collections.namedtuple
  kProcessesClass,          // what dataclasses.dataclass calls with the class
  kRepr,                    // what guards a __repr__ of the library's against recursion
  kCheck,                   // torch._check_tensor_all_with
  kRegisterHook,            // torch.Tensor.register_hook
  kTransform,               // of torch.func: runs as it is, with frames of the program's evaluated
  kFunctionApply,           // torch.autograd.Function.apply
  kFunctionUnderTransform,  // what it calls where a transform of torch.func is active
};
// By its code.
KnownFunction FindKnownFunction(BorrowedRef function);
// Where the closure of a Python function holds the variable; -1: nowhere.
Py_ssize_t IndexInClosure(PyFunctionObject* function, const char* name);
// True for code of torch itself or of the standard library.
bool IsTorchCode(PyCodeObject* code);
// Of torch's: it makes a set of tensors to see which it has met, and nothing else: their order in it does not tell.
bool IsCodeOfMembers(PyCodeObject* code);
bool IsCopyCode(PyCodeObject* code);      // of the standard library's module copy
bool IsTypingCode(PyCodeObject* code);    // of typing and typing_extensions
bool IsWarningsCode(PyCodeObject* code);  // of the library's module warnings: a warning is an effect
bool IsOwnCode(PyCodeObject* code);       // of framefuse's package
bool IsImportCode(PyCodeObject* code);    // of importlib's frozen part: an import, where it is under way
bool IsSkippedCode(PyCodeObject* code);   // frames never captured as a root: standard library, torch, framefuse

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_RULES_CALL_RULES_H_
