#include "symbolic/tracing/kernel_probe.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <mutex>
#include <unordered_map>

#include "backends/graph/believing_ops.h"
#include "backends/graph/boxed_call.h"
#include "backends/graph/operators.h"
#include "symbolic/tracing/fake_tensor.h"
#include "symbolic/tracing/recorder.h"
#include "symbolic/tracing/warning_watch.h"

namespace framefuse::tracing {
namespace {

constexpr std::size_t kMostAnswers = 1 << 14;

// It would believe them, and read past an element.
bool IsToldSizes(ir::OpId op) {
  const auto& schema = op->schema().arguments();
  for (const c10::Argument& a : schema) {
    const c10::TypeKind kind = a.type()->kind();
    const bool optional = kind == c10::TypeKind::OptionalType;
    const c10::TypePtr type = optional ? a.type()->castRaw<c10::OptionalType>()->getElementType() : a.type();
    const bool number = type->kind() == c10::TypeKind::IntType || type->kind() == c10::TypeKind::SymIntType ||
                        type->kind() == c10::TypeKind::ListType;
    if (number && a.name() != "dim" && a.name() != "dtype" && a.name() != "tensors" && a.name() != "indices")
      return true;
  }
  return false;
}

bool WritesNoMoreThanItself(ir::OpId op) {
  if (!op->mutates()) return true;
  return op->returns().size() == 1 && op->returns()[0].written_argument == 0;
}

bool IsAsked(ir::OpId op) {
  if (op->is_random() || op->is_view() || op->has_side_effect() || !ir::Has(op, ir::OpFact::kAten)) return false;
  const c10::OperatorHandle& handle = op->handle();
  if (handle.hasTag(at::Tag::nondeterministic_seeded) || handle.hasTag(at::Tag::inplace_view)) return false;
  return op->is_pointwise() || (WritesNoMoreThanItself(op) && !IsToldSizes(op) && !ir::BelievesItsArguments(op));
}

// One operator's question, made of its arguments: a key to remember the answer by, and the arguments of the run.
class Question {
 public:
  Question(ir::OpId op, c10::ArrayRef<c10::IValue> args) : pointwise_(op->is_pointwise()) {
    key_.append(reinterpret_cast<const char*>(&op), sizeof op);
    for (const c10::IValue& v : args) possible_ = possible_ && Add(v);
  }

  bool possible() const { return possible_ && has_tensor_; }
  const std::string& key() const { return key_; }

  torch::jit::Stack Operands(c10::ArrayRef<c10::IValue> args) const {
    torch::jit::Stack stack;
    for (const c10::IValue& v : args) {
      if (v.isTensor()) {
        stack.emplace_back(OneLike(v.toTensor()));
      } else if (v.isTensorList()) {
        c10::List<at::Tensor> list;
        for (const c10::IValue& e : v.toListRef()) list.push_back(OneLike(e.toTensor()));
        stack.emplace_back(std::move(list));
      } else if (v.isOptionalTensorList()) {
        c10::List<std::optional<at::Tensor>> list;
        for (const c10::IValue& e : v.toListRef()) {
          list.push_back(e.isTensor() ? std::optional<at::Tensor>(OneLike(e.toTensor())) : std::nullopt);
        }
        stack.emplace_back(std::move(list));
      } else {
        stack.push_back(v);
      }
    }
    return stack;
  }

 private:
  bool Add(const c10::IValue& v) {
    if (v.isTensor()) return AddTensor(v.toTensor());
    if (v.isTensorList() || v.isOptionalTensorList()) {
      key_ += '[';
      for (const c10::IValue& e : v.toListRef()) {
        if (e.isTensor() && !AddTensor(e.toTensor())) return false;
        if (!e.isTensor()) key_ += '-';
      }
      key_ += ']';
      return true;
    }
    if (v.isSymInt() || v.isSymFloat() || v.isSymBool() || v.isGenerator()) return false;
    return AddConstant(v);
  }

  // With its value: whether it fits a type is asked, too.
  bool AddConstant(const c10::IValue& v) {
    if (v.isDouble()) {
      key_ += 'd' + std::to_string(v.toDouble());
    } else if (v.isComplexDouble()) {
      key_ += 'c' + std::to_string(v.toComplexDouble().real());
    } else if (v.isBool()) {
      key_ += v.toBool() ? 'T' : 'F';
    } else if (v.isInt()) {
      key_ += 'i' + std::to_string(v.toInt());
    } else if (v.isIntList()) {
      for (const std::int64_t i : v.toIntVector()) key_ += 'l' + std::to_string(i);
    } else if (v.isString()) {
      key_ += '"' + v.toStringRef() + '"';
    } else if (v.isNone()) {
      key_ += 'N';
    } else {
      return false;
    }
    return true;
  }

  bool AddTensor(const at::Tensor& t) {
    if (!t.defined()) {
      key_ += '-';
      return true;
    }
    if (!t.is_cpu() || t.layout() != c10::Layout::Strided) return false;
    has_tensor_ = true;
    const bool wrapped = t.unsafeGetTensorImpl()->is_wrapped_number();
    key_ += static_cast<char>('0' + static_cast<int>(t.scalar_type()));
    key_ += wrapped ? 'w' : static_cast<char>('A' + std::min<std::int64_t>(t.dim(), 20));
    return true;
  }

  // Ones where a kernel may divide, zeros where it may look something up.
  at::Tensor OneLike(const at::Tensor& t) const {
    if (!t.defined()) return t;
    const std::vector<std::int64_t> sizes(static_cast<std::size_t>(t.dim()), 1);
    at::Tensor one = at::empty(sizes, t.options().device(c10::DeviceType::CPU).requires_grad(false));
    one.fill_(pointwise_ ? 1 : 0);
    if (t.unsafeGetTensorImpl()->is_wrapped_number()) one.unsafeGetTensorImpl()->set_wrapped_number(true);
    return one;
  }

  bool pointwise_;
  bool possible_ = true;
  bool has_tensor_ = false;
  std::string key_;
};

// Sizes of one may be wrong for an operator that is not pointwise: a cross product wants three.
bool IsAboutTypes(std::string_view text) {
  for (const std::string_view word :
       {"dtype", "data type", "not implemented for '", "floating point", "omplex", "ool", "converted to type"}) {
    if (text.find(word) != std::string_view::npos) return true;
  }
  return false;
}

// The answer is kept, and serves recordings that hear what torch has said before, too.
class WarnsEachTime {
 public:
  WarnsEachTime() { c10::WarningUtils::set_warnAlways(true); }
  ~WarnsEachTime() { c10::WarningUtils::set_warnAlways(before_); }
  WarnsEachTime(const WarnsEachTime&) = delete;
  WarnsEachTime& operator=(const WarnsEachTime&) = delete;

 private:
  bool before_ = c10::WarningUtils::get_warnAlways();
};

KernelAnswer Ask(ir::OpId op, const Question& question, c10::ArrayRef<c10::IValue> args) {
  const c10::impl::ExcludeDispatchKeyGuard off(KeysOffForMeta());
  torch::jit::Stack operands = question.Operands(args);
  const WarnsEachTime each_time;
  const WarningWatch watch;
  KernelAnswer answer;
  try {
    ir::CallHoldingOperands(op->handle(), &operands);
  } catch (const c10::Error& e) {
    std::string text = e.what_without_backtrace();
    if (op->is_pointwise() || IsAboutTypes(text)) {
      answer.refusal = std::move(text);
      answer.error = std::current_exception();
    }
  }
  answer.warning = watch.first();
  return answer;
}

}  // namespace

KernelAnswer AskKernel(ir::OpId op, c10::ArrayRef<c10::IValue> args) {
  static auto* mutex = new std::mutex;
  static auto* answers = new std::unordered_map<std::string, KernelAnswer>;
  if (!IsAsked(op)) return {};
  const Question question(op, args);
  if (!question.possible()) return {};
  {
    const std::lock_guard lock(*mutex);
    const auto known = answers->find(question.key());
    if (known != answers->end()) return known->second;
  }
  KernelAnswer answer = Ask(op, question, args);
  const std::lock_guard lock(*mutex);
  if (answers->size() < kMostAnswers) answers->emplace(question.key(), answer);
  return answer;
}

}  // namespace framefuse::tracing
