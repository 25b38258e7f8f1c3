// SavedTensors: what a forward run has saved, as SavedVariables: versions are checked and hooks run as in eager.
// Invariant: hooks give each tensor back once in a pass, as in eager, where one node asks: a checkpoint refuses the
// second time. What they gave lives as long as the pass, and no longer than what is saved.
#ifndef FRAMEFUSE_BACKENDS_AUTOGRAD_SAVED_TENSORS_H_
#define FRAMEFUSE_BACKENDS_AUTOGRAD_SAVED_TENSORS_H_

#include <torch/csrc/autograd/saved_variable.h>

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "backends/runtime/autograd_node.h"

namespace framefuse {

class SavedTensors {
 public:
  void resize(std::size_t size) { saved_.resize(size); }
  std::size_t size() const { return saved_.size(); }
  torch::autograd::SavedVariable& operator[](std::size_t i) { return saved_[i]; }

  // `for_many`: several nodes of one pass ask for it; without, a second derivative does.
  void set_for_many(bool for_many) { for_many_ = for_many; }
  at::Tensor Unpack(std::size_t i, const AutogradNodePtr& node) const;
  void Drop(std::size_t i);

 private:
  // What hooks gave, by pass and place.
  struct Given {
    at::Tensor Find(int pass, std::size_t i);
    bool Add(int pass, std::size_t i, const at::Tensor& t);  // whether it is the first of its pass
    void End(int pass);

    std::mutex mutex;
    std::map<int, std::map<std::size_t, at::Tensor>> by_pass;
  };

  std::vector<torch::autograd::SavedVariable> saved_;
  bool for_many_ = false;
  std::shared_ptr<Given> given_ = std::make_shared<Given>();
};

}  // namespace framefuse

#endif  // FRAMEFUSE_BACKENDS_AUTOGRAD_SAVED_TENSORS_H_
