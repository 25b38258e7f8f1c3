// RecordedWrites: what a recording has written, and the check of what it may write.
// Invariant: a write that a program without writes cannot do as eager does it breaks before it is recorded.
#ifndef FRAMEFUSE_SYMBOLIC_TRACING_RECORDED_WRITES_H_
#define FRAMEFUSE_SYMBOLIC_TRACING_RECORDED_WRITES_H_

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "backends/graph/graph.h"
#include "symbolic/tracing/fake_tensor.h"
#include "symbolic/tracing/geometry_argument.h"
#include "symbolic/tracing/op_traits.h"
#include "symbolic/tracing/uncounted_writes.h"

namespace framefuse::tracing {

class Recorder;

// An input's own sizes and strides are changed, by a method and numbers: to be done again behind the graph.
struct GeometryWrite {
  const FakeImpl* input;
  std::string method;
  std::vector<GeometryArgument> arguments;
};

class RecordedWrites {
 public:
  // What may be written, now or later, and whether two operands of one storage have an element in common.
  void Check(Recorder& recorder, const OpTraits& traits, c10::ArrayRef<c10::IValue> args);
  // At the end. A node saves what it reads. If that is written with what the node computed, its history leads back to
  // the node, and torch never frees the ring.
  void ReleaseHistories();
  const UncountedWrites& uncounted() const { return uncounted_; }

  void AddGeometry(GeometryWrite write) { geometry_.push_back(std::move(write)); }
  const std::vector<GeometryWrite>& geometry() const { return geometry_; }
  std::int64_t CountGeometry(const FakeImpl* input) const;
  // A tensor grew, because its storage had room for it.
  void NoteRoom(ir::StorageId storage) { with_room_.insert(storage); }
  bool HadRoom(ir::StorageId storage) const { return with_room_.contains(storage); }

 private:
  void CheckTensor(Recorder& recorder, const OpTraits& traits, const at::Tensor& t);

  std::vector<c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>>
      written_;  // fakes, and what they are views of
  UncountedWrites uncounted_;
  std::vector<GeometryWrite> geometry_;
  absl::flat_hash_set<ir::StorageId> with_room_;
};

}  // namespace framefuse::tracing

#endif  // FRAMEFUSE_SYMBOLIC_TRACING_RECORDED_WRITES_H_
