// Op: one ATen operator overload, interned, with the facts of its schema that the passes need.
// Invariant: an Op is created once per overload and lives for ever, so `const Op*` is its identity (OpId).
// Torch's dispatcher headers are slow to compile: handle() and schema() are forward-declared here, include
// ATen/core/dispatch/Dispatcher.h where they are used.
#ifndef FRAMEFUSE_BACKENDS_GRAPH_OP_H_
#define FRAMEFUSE_BACKENDS_GRAPH_OP_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace c10 {
class OperatorHandle;
struct FunctionSchema;
}  // namespace c10

namespace framefuse::ir {

enum class ArgType : std::uint8_t {
  kTensor,
  kOptionalTensor,
  kTensorList,
  kOptionalTensorList,  // Tensor?[]: elements may be absent (index)
  kOther,
};

// Constants whose schema type is int at run time but prints as a name.
enum class NamedInt : std::uint8_t { kNone, kDtype, kLayout, kMemoryFormat };

struct OpArgument {
  std::string name;
  ArgType type = ArgType::kOther;
  NamedInt named_int = NamedInt::kNone;
  bool keyword_only = false;
  bool written = false;  // schema says (a!)
  bool aliased = false;  // schema gives an alias set
  bool default_none = false;
};

struct OpReturn {
  ArgType type = ArgType::kTensor;  // kOther: a number
  int written_argument = -1;        // the return is that written argument itself (in-place, out=)
  int viewed_argument = -1;         // the return may be a view of that argument
};

class Op {
 public:
  Op(const Op&) = delete;
  Op& operator=(const Op&) = delete;

  // "aten.add.Tensor"; "aten.relu" for an empty overload name.
  const std::string& name() const { return name_; }
  const std::vector<OpArgument>& arguments() const { return arguments_; }
  const std::vector<OpReturn>& returns() const { return returns_; }
  bool mutates() const { return mutates_; }  // writes at least one argument
  bool is_view() const { return is_view_; }  // some return aliases an argument that is not written
  // Random: its result depends on generator state; never merged, dropped or recomputed.
  bool is_random() const { return is_random_; }
  // Has effects beyond its written arguments or none-removable (assertions, printing, collectives).
  bool has_side_effect() const { return has_side_effect_; }
  // Each element of the result depends on the elements at its place only, and is cheap to compute again.
  bool is_pointwise() const { return is_pointwise_; }
  // The sizes of some result follow from the values of an argument.
  bool is_sized_by_values() const { return is_sized_by_values_; }
  int FindArgument(std::string_view name) const;  // -1: none

  const c10::OperatorHandle& handle() const { return *handle_; }
  const c10::FunctionSchema& schema() const;

 private:
  friend class OpTable;
  Op();
  ~Op();
  std::string name_;
  std::vector<OpArgument> arguments_;
  std::vector<OpReturn> returns_;
  bool mutates_ = false;
  bool is_view_ = false;
  bool is_random_ = false;
  bool has_side_effect_ = false;
  bool is_pointwise_ = false;
  bool is_sized_by_values_ = false;
  std::unique_ptr<c10::OperatorHandle> handle_;
};

using OpId = const Op*;

// Interns; thread-safe; ~20 ns once known.
OpId InternOp(const c10::OperatorHandle& handle);
// By printed name ("aten.add.Tensor"). NotFound if the dispatcher has no such overload.
absl::StatusOr<OpId> FindOp(std::string_view name);
// As FindOp for names known to exist in every supported torch; a missing one is a fatal error.
OpId RequireOp(std::string_view name);

}  // namespace framefuse::ir

#endif  // FRAMEFUSE_BACKENDS_GRAPH_OP_H_
