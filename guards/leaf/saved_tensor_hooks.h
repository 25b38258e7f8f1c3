// leaf/saved_tensor_hooks: what the innermost hooks for saved tensors do that are on in this thread.
// torch's own of a checkpoint and of save_on_cpu() keep tensors and give them back: they ask nothing of what made them,
// so that a compiled graph may save its own. A user's see each operation. Stateless but for torch's flag.
#ifndef FRAMEFUSE_GUARDS_LEAF_SAVED_TENSOR_HOOKS_H_
#define FRAMEFUSE_GUARDS_LEAF_SAVED_TENSOR_HOOKS_H_

#include <cstdint>
#include <optional>

#include "frame_eval/ref.h"

namespace framefuse {

enum class SavedTensorHooks : std::uint8_t { kNone, kKeep, kOfUser };

SavedTensorHooks SavedTensorHooksNow() noexcept;
bool HasSavedTensorHooks() noexcept;  // of any kind

// While it lives a compiled function is being called, with the hooks that are on now. Those that come on later are a
// user's: a checkpoint that compiled code calls runs its function again where nothing is compiled.
class SavedTensorHooksOfCall {
 public:
  SavedTensorHooksOfCall();
  ~SavedTensorHooksOfCall();
  SavedTensorHooksOfCall(const SavedTensorHooksOfCall&) = delete;
  SavedTensorHooksOfCall& operator=(const SavedTensorHooksOfCall&) = delete;

 private:
  const BorrowedRef outer_;
};

// The checkpoint whose hooks they are.
struct CheckpointHooks {
  Ref frame;                // torch's object for it
  BorrowedRef second_pack;  // of its function's second run, this one; null: it is the first
  // Second run: all is there that the first one saved.
  bool HasAllSaved() const;
};
std::optional<CheckpointHooks> CheckpointHooksNow();
bool IsSecondRun();  // of a checkpoint's function, around the compiled function that is being called

// Whether it is a function of torch.utils.checkpoint's own.
bool IsOfCheckpoint(BorrowedRef function);

// While it lives hooks stay on and are handed nothing: a capture makes tensors that they must not keep.
class SavedTensorHooksUncalled {
 public:
  SavedTensorHooksUncalled();
  ~SavedTensorHooksUncalled();
  SavedTensorHooksUncalled(const SavedTensorHooksUncalled&) = delete;
  SavedTensorHooksUncalled& operator=(const SavedTensorHooksUncalled&) = delete;

 private:
  const bool before_;
};

}  // namespace framefuse

#endif  // FRAMEFUSE_GUARDS_LEAF_SAVED_TENSOR_HOOKS_H_
