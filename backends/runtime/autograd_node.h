// autograd_node: how nodes of torch's engine are made and held.
// Invariant: a node dies with its last holder, in each version of torch as that counts them: 2.11 with shared_ptr, 2.13
// with intrusive_ptr.
#ifndef FRAMEFUSE_BACKENDS_RUNTIME_AUTOGRAD_NODE_H_
#define FRAMEFUSE_BACKENDS_RUNTIME_AUTOGRAD_NODE_H_

#include <torch/csrc/autograd/edge.h>
#include <torch/csrc/autograd/function.h>
#include <torch/version.h>

#include <memory>
#include <utility>

namespace framefuse {

// torch 2.11 counts nodes with shared_ptr, 2.13 with intrusive_ptr.
using AutogradNodePtr = decltype(torch::autograd::Edge::function);

template <typename NodeType, typename... Args>
AutogradNodePtr MakeAutogradNode(Args&&... args) {
#if TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR < 13
  return AutogradNodePtr(new NodeType(std::forward<Args>(args)...), torch::autograd::deleteNode);
#else
  return c10::make_intrusive<NodeType>(std::forward<Args>(args)...);
#endif
}

}  // namespace framefuse

#endif  // FRAMEFUSE_BACKENDS_RUNTIME_AUTOGRAD_NODE_H_
