#include "symbolic/tracing/geometry_in_place.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "backends/graph/operators.h"
#include "symbolic/tracing/recorder.h"
#include "symbolic/tracing/shapes/shapes.h"

namespace framefuse::tracing {
namespace {

using torch::jit::Stack;

c10::IValue& ArgumentOf(const c10::OperatorHandle& handle, Stack* stack, std::size_t i) {
  return (*stack)[stack->size() - handle.schema().arguments().size() + i];
}

// What a method does to `fake` itself later, if it is an input. Nothing: it is not to be done then.
std::optional<GeometryWrite> WriteOf(Recorder& recorder, const FakeImpl* fake, const at::Tensor& self,
                                     std::string method, std::vector<GeometryArgument> arguments) {
  const bool plain = recorder.phase() == ir::Phase::kForward && !recorder.branches().any_open() &&
                     !self.requires_grad() && !self.is_inference();
  if (!plain) return std::nullopt;
  return GeometryWrite{fake, std::move(method), std::move(arguments)};
}

// Nothing: not all of them can be written down.
std::optional<std::vector<GeometryArgument>> ArgumentsOf(const c10::OperatorHandle& handle, Stack* stack) {
  std::vector<GeometryArgument> arguments;
  const std::size_t count = handle.schema().arguments().size();
  for (std::size_t i = 1; i < count; ++i) {
    const c10::IValue& v = ArgumentOf(handle, stack, i);
    if (v.isInt()) {
      arguments.push_back({{v.toInt()}, false});
    } else if (v.isIntList()) {
      arguments.push_back({v.toIntVector(), true});
    } else if (!v.isNone() || i + 1 < count) {
      return std::nullopt;
    }
  }
  return arguments;
}

bool IsInput(Recorder& recorder, const FakeImpl* fake) {
  return recorder.inputs().Contains(fake->value()) || recorder.writes().CountGeometry(fake) > 0;
}

// `stack` has the arguments of `view` on top.
void Become(Recorder& recorder, const at::Tensor& self, const c10::OperatorHandle& view, Stack* stack,
            std::optional<GeometryWrite> write) {
  recorder.RecordPlain(TraitsOf(view), stack);
  const at::Tensor viewed = stack->back().toTensor();
  FakeImpl* fake = AsFake(self);
  fake->set_sizes_and_strides(viewed.sym_sizes(), viewed.sym_strides(), viewed.sym_storage_offset());
  fake->Rebind(AsFake(viewed)->value());
  if (write) recorder.writes().AddGeometry(*std::move(write));
  stack->back() = self;
}

// To the sizes it has is no change, and to fewer elements than there is room for none of its memory.
bool ResizeTo(Recorder& recorder, const c10::OperatorHandle& handle, Stack* stack, c10::IntArrayRef sizes) {
  static const c10::OperatorHandle as_strided = ir::RequireOp(ir::OpName::kAsStrided)->handle();
  const at::Tensor self = ArgumentOf(handle, stack, 0).toTensor();
  const std::size_t count = handle.schema().arguments().size();
  FakeImpl* fake = AsFake(self);
  if (fake == nullptr || fake->has_symbolic_sizes_strides()) return BreakOnMetadata(recorder, handle, stack);
  if (self.sizes() == sizes) {
    torch::jit::drop(*stack, count);
    stack->emplace_back(self);
    return true;
  }
  const std::int64_t end = self.storage_offset() + c10::multiply_integers(sizes);
  const std::optional<std::int64_t> room = self.storage().sym_nbytes().maybe_as_int();
  const bool plain = ArgumentOf(handle, stack, count - 1).isNone() && room && !self.is_conj() && !self.is_neg();
  if (!plain || end * static_cast<std::int64_t>(self.element_size()) > *room) {
    return BreakOnMetadata(recorder, handle, stack);
  }
  std::optional<GeometryWrite> write;
  if (IsInput(recorder, fake)) {
    write = WriteOf(recorder, fake, self, "resize_", {{sizes.vec(), true}});
    if (!write) return BreakOnMetadata(recorder, handle, stack);
  }
  std::vector<std::int64_t> strides(sizes.size(), 1);
  for (std::size_t d = sizes.size(); d-- > 1;) strides[d - 1] = strides[d] * std::max<std::int64_t>(sizes[d], 1);
  const std::int64_t offset = self.storage_offset();
  recorder.writes().NoteRoom(recorder.graph().value(fake->value()).storage);
  torch::jit::drop(*stack, count);
  torch::jit::push(*stack, self, sizes.vec(), strides, offset);
  Become(recorder, self, as_strided, stack, std::move(write));
  return true;
}

}  // namespace

bool BreakOnMetadata(Recorder& recorder, const c10::OperatorHandle& handle, Stack*) {
  recorder.Break(BreakKind::kMetadataMutation, TraitsOf(handle), "sizes or storage of a tensor are replaced in place");
}

bool ViewInPlace(Recorder& recorder, const c10::OperatorHandle& handle, Stack* stack) {
  const c10::OperatorName& name = handle.operator_name();
  const at::Tensor self = ArgumentOf(handle, stack, 0).toTensor();
  const FakeImpl* fake = AsFake(self);
  if (fake == nullptr) return BreakOnMetadata(recorder, handle, stack);
  std::optional<GeometryWrite> write;
  if (IsInput(recorder, fake)) {
    std::optional<std::vector<GeometryArgument>> arguments = ArgumentsOf(handle, stack);
    if (!arguments || !ir::Has(ir::InternOp(handle), ir::OpFact::kCalledAgain))
      return BreakOnMetadata(recorder, handle, stack);
    write = WriteOf(recorder, fake, self, name.name.substr(name.name.rfind(':') + 1), *std::move(arguments));
    if (!write) return BreakOnMetadata(recorder, handle, stack);
  }
  const std::string view_name = name.name.substr(0, name.name.size() - 1);
  auto view = c10::Dispatcher::singleton().findSchema({view_name, name.overload_name});
  // transpose_ is the in-place form of transpose.int.
  if (!view) view = c10::Dispatcher::singleton().findSchema({view_name, "int"});
  if (!view) return BreakOnMetadata(recorder, handle, stack);
  Become(recorder, self, *view, stack, std::move(write));
  return true;
}

bool ResizeInPlace(Recorder& recorder, const c10::OperatorHandle& handle, Stack* stack) {
  const c10::IValue& sizes = ArgumentOf(handle, stack, 1);
  if (!sizes.isIntList()) return BreakOnMetadata(recorder, handle, stack);
  const std::vector<std::int64_t> wanted = sizes.toIntVector();
  return ResizeTo(recorder, handle, stack, wanted);
}

bool ResizeAsInPlace(Recorder& recorder, const c10::OperatorHandle& handle, Stack* stack) {
  const at::Tensor& like = ArgumentOf(handle, stack, 1).toTensor();
  if (like.unsafeGetTensorImpl()->has_symbolic_sizes_strides()) return BreakOnMetadata(recorder, handle, stack);
  const std::vector<std::int64_t> wanted = like.sizes().vec();
  return ResizeTo(recorder, handle, stack, wanted);
}

}  // namespace framefuse::tracing
