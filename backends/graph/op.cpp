#include "backends/graph/op.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/enum_tag.h>

#include <mutex>
#include <shared_mutex>
#include <unordered_map>
#include <unordered_set>

#include "backends/graph/operators.h"
#include "common/check.h"

namespace framefuse::ir {
namespace {

// The alias sets of an argument or return, those of list elements included (Tensor(a)[] keeps them inside).
void CollectSets(const c10::AliasInfo& info, std::unordered_set<c10::Symbol>* sets, bool* write) {
  for (const c10::Symbol& s : info.beforeSets()) {
    if (s != c10::AliasInfo::wildcardSet()) sets->insert(s);
  }
  *write = *write || info.isWrite();
  for (const c10::AliasInfo& inner : info.containedTypes()) CollectSets(inner, sets, write);
}

struct AliasAnnotation {
  std::unordered_set<c10::Symbol> sets;
  bool write = false;
};

AliasAnnotation AnnotationOf(const c10::Argument& arg) {
  AliasAnnotation annotations;
  if (arg.alias_info() != nullptr) CollectSets(*arg.alias_info(), &annotations.sets, &annotations.write);
  return annotations;
}

ArgType TypeOf(const c10::TypePtr& type) {
  if (type->kind() == c10::TypeKind::TensorType) return ArgType::kTensor;
  if (auto optional = type->cast<c10::OptionalType>()) {
    const c10::TypePtr& element = optional->getElementType();
    if (element->kind() == c10::TypeKind::TensorType) return ArgType::kOptionalTensor;
    if (TypeOf(element) == ArgType::kTensorList) return ArgType::kTensorList;
    return ArgType::kOther;
  }
  if (auto list = type->cast<c10::ListType>()) {
    ArgType element = TypeOf(list->getElementType());
    if (element == ArgType::kTensor) return ArgType::kTensorList;
    if (element == ArgType::kOptionalTensor) return ArgType::kOptionalTensorList;
  }
  return ArgType::kOther;
}

NamedInt NamedIntOf(const c10::Argument& arg) {
  c10::TypePtr type = arg.real_type();
  if (auto optional = type->cast<c10::OptionalType>()) type = optional->getElementType();
  switch (type->kind()) {
    case c10::TypeKind::ScalarTypeType:
      return NamedInt::kDtype;
    case c10::TypeKind::LayoutType:
      return NamedInt::kLayout;
    case c10::TypeKind::MemoryFormatType:
      return NamedInt::kMemoryFormat;
    default:
      return NamedInt::kNone;
  }
}

std::string PrintedName(const c10::OperatorName& name) {
  std::string printed = name.name;
  if (std::size_t at = printed.find("::"); at != std::string::npos) printed.replace(at, 2, ".");
  if (!name.overload_name.empty()) printed += "." + name.overload_name;
  return printed;
}

c10::OperatorName DispatcherName(std::string_view printed) {
  std::size_t first = printed.find('.');
  std::string name(printed.substr(0, first));
  std::string overload;
  if (first != std::string_view::npos) {
    std::string_view rest = printed.substr(first + 1);
    std::size_t second = rest.find('.');
    name += "::" + std::string(rest.substr(0, second));
    if (second != std::string_view::npos) overload = rest.substr(second + 1);
  }
  if (overload == "default") overload.clear();
  return {std::move(name), std::move(overload)};
}

bool ReturnsSharedArgument(const std::unordered_set<c10::Symbol>& sets, const AliasAnnotation& argument) {
  for (const c10::Symbol& s : sets) {
    if (argument.sets.count(s) != 0) return true;
  }
  return false;
}

}  // namespace

Op::Op() = default;
Op::~Op() = default;

const c10::FunctionSchema& Op::schema() const { return handle_->schema(); }

int Op::FindArgument(std::string_view name) const {
  for (std::size_t i = 0; i < arguments_.size(); ++i) {
    if (arguments_[i].name == name) return static_cast<int>(i);
  }
  return -1;
}

class OpTable {
 public:
  // Each Op is one: what rows say of it stands behind it, where no header shows it.
  struct Known final : Op {
    OpRow row;
  };

  static OpTable& Get() {
    static OpTable* table = new OpTable;  // never destroyed: ops are used by static plans
    return *table;
  }

  OpId Intern(const c10::OperatorHandle& handle) {
    {
      std::shared_lock lock(mutex_);
      if (auto it = ops_.find(handle); it != ops_.end()) return it->second;
    }
    std::unique_lock lock(mutex_);
    OpId& op = ops_[handle];
    if (op == nullptr) op = Create(handle);
    return op;
  }

 private:
  static OpId Create(const c10::OperatorHandle& handle) {
    auto* op = new Known;
    op->handle_ = std::make_unique<c10::OperatorHandle>(handle);
    op->name_ = PrintedName(handle.operator_name());
    op->row = RowOf(op->name_);
    const auto says = [&](OpFact fact) { return (op->row.facts & static_cast<std::uint64_t>(fact)) != 0; };
    const c10::FunctionSchema& schema = handle.schema();
    std::vector<AliasAnnotation> annotations;
    for (const c10::Argument& a : schema.arguments()) {
      annotations.push_back(AnnotationOf(a));
      bool default_none = a.default_value().has_value() && a.default_value()->isNone();
      op->arguments_.push_back({a.name(), TypeOf(a.type()), NamedIntOf(a), a.kwarg_only(), annotations.back().write,
                                !annotations.back().sets.empty(), default_none});
      op->mutates_ = op->mutates_ || annotations.back().write;
    }
    for (const c10::Argument& r : schema.returns()) {
      OpReturn ret{TypeOf(r.type()), -1, -1};
      AliasAnnotation mine = AnnotationOf(r);
      for (std::size_t i = 0; i < annotations.size(); ++i) {
        if (!ReturnsSharedArgument(mine.sets, annotations[i])) continue;
        (mine.write ? ret.written_argument : ret.viewed_argument) = static_cast<int>(i);
      }
      op->is_view_ = op->is_view_ || ret.viewed_argument >= 0;
      op->returns_.push_back(ret);
    }
    op->is_random_ = handle.hasTag(at::Tag::nondeterministic_seeded);
    op->is_pointwise_ = !op->is_random_ && (handle.hasTag(at::Tag::pointwise) || says(OpFact::kPointwise));
    op->is_sized_by_values_ = handle.hasTag(at::Tag::dynamic_output_shape) || says(OpFact::kSizedByValues);
    op->has_side_effect_ = (schema.returns().empty() && !op->mutates_) || says(OpFact::kOfProcesses);
    return op;
  }

  std::shared_mutex mutex_;
  std::unordered_map<c10::OperatorHandle, OpId> ops_;
};

OpName NameOf(OpId op) { return static_cast<const OpTable::Known*>(op)->row.name; }

bool Has(OpId op, OpFact fact) {
  return (static_cast<const OpTable::Known*>(op)->row.facts & static_cast<std::uint64_t>(fact)) != 0;
}

OpId InternOp(const c10::OperatorHandle& handle) { return OpTable::Get().Intern(handle); }

absl::StatusOr<OpId> FindOp(std::string_view name) {
  std::optional<c10::OperatorHandle> handle = c10::Dispatcher::singleton().findSchema(DispatcherName(name));
  if (!handle.has_value()) return absl::NotFoundError("no such operator: " + std::string(name));
  return InternOp(*handle);
}

OpId RequireOp(std::string_view name) {
  absl::StatusOr<OpId> op = FindOp(name);
  FF_CHECK(op.ok()) << op.status().ToString();
  return *op;
}

}  // namespace framefuse::ir
