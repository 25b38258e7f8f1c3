// OpTraits: what the recorder knows of one operator overload: its schema facts, its shape function and the
// kernel that infers metadata where there is none.
// Invariant: made once per overload and kept for ever. Python meta kernels shadow torch's C++ ones in the
// dispatcher, so the C++ kernel is taken from behind them (it is 10 to 100 times faster).
#ifndef FRAMEFUSE_SYMBOLIC_TRACING_OP_TRAITS_H_
#define FRAMEFUSE_SYMBOLIC_TRACING_OP_TRAITS_H_

#include <ATen/core/dispatch/Dispatcher.h>

#include <cstdint>
#include <string>

#include "backends/graph/op.h"
#include "symbolic/tracing/shapes/shapes.h"

namespace framefuse::tracing {

class Recorder;

enum class MetaSource : std::uint8_t {
  kNone,
  kCpp,        // torch's C++ Meta kernel, shadowed or not
  kPython,     // torch._meta_registrations and decompositions
  kComposite,  // CompositeExplicitAutograd: runs on the fakes, and what it records is dropped
};

// An operator that the recorder does not simply record. Returns false to go the common way.
using SpecialFn = bool (*)(Recorder& recorder, const c10::OperatorHandle& handle, torch::jit::Stack* stack);

struct OpTraits {
  explicit OpTraits(const c10::OperatorHandle& h) : handle(h) {}

  c10::OperatorHandle handle;
  ir::OpId op = nullptr;
  ShapeFn shape = nullptr;
  const RefusalRow* refusal = nullptr;
  const WarningRow* warning = nullptr;
  SpecialFn special = nullptr;
  MetaSource meta_source = MetaSource::kNone;
  c10::KernelFunction meta;
  c10::KernelFunction decomposition;  // CompositeImplicitAutograd, valid if the op has one
  bool is_composite = false;
  // Writes arguments[0], returns it and leaves its metadata alone: `add_`, `relu_` …; `shape` is then that of
  // the functional form and only checks the arguments.
  bool is_plain_inplace = false;
  bool returns_number = false;
  // One autograd node for lists of tensors: it saves them all, and asks for them all whichever gradient is wanted.
  bool is_foreach = false;
  int device_argument = -1;
  int layout_argument = -1;
  int num_arguments = 0;
  int num_returns = 0;
};

const OpTraits& TraitsOf(const c10::OperatorHandle& handle);

}  // namespace framefuse::tracing

#endif  // FRAMEFUSE_SYMBOLIC_TRACING_OP_TRAITS_H_
