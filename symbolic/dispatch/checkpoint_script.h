// CheckpointScript: what a checkpoint's function ran as, piece by piece, so that its second run is the same.
// torch's checkpoint tells saved tensors by their order. A capture learns: a call may be compiled otherwise than the
// one before, or run as Python, and would then save other tensors in that order. So the first run notes each entry that
// it comes to, or that there was none, and the second takes those and makes none.
// Invariant: notes live as long as torch's object for the checkpoint; each second run reads them from the beginning.
#ifndef FRAMEFUSE_SYMBOLIC_DISPATCH_CHECKPOINT_SCRIPT_H_
#define FRAMEFUSE_SYMBOLIC_DISPATCH_CHECKPOINT_SCRIPT_H_

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "frame_eval/code_cache.h"
#include "frame_eval/ref.h"
#include "guards/leaf/saved_tensor_hooks.h"

namespace framefuse {

class CheckpointScript {
 public:
  // Of the checkpoint whose function runs now; nothing: none does.
  static std::optional<CheckpointScript> Now();

  bool is_second_run() const { return reader_ != nullptr; }
  // First run: null where Python runs the frame from here.
  void Note(std::shared_ptr<Site> site, std::shared_ptr<Entry> entry);
  // A compiled function is called. `off`: nothing is to be compiled now, which the first run notes and the second
  // ignores.
  bool RunsAsPython(bool off);
  // Second run. Nothing: the first run did not come here next.
  std::optional<std::shared_ptr<Entry>> Next(const std::shared_ptr<Site>& site);
  // Second run: whether it has come to its end, for torch.
  bool HasAllSaved() const { return hooks_.HasAllSaved(); }
  // torch's error of a checkpoint whose second run is another.
  static void RaiseOtherWay(BorrowedRef function, const std::string& why);

 private:
  struct Step {
    std::shared_ptr<Site> site;  // null: of a compiled function that ran as Python as a whole
    std::shared_ptr<Entry> entry;
  };
  using Steps = std::vector<Step>;
  struct Reader {
    std::shared_ptr<Steps> steps;
    std::size_t next = 0;
  };

  CheckpointScript(CheckpointHooks hooks, Steps* steps, Reader* reader)
      : hooks_(std::move(hooks)), steps_(steps), reader_(reader) {}

  CheckpointHooks hooks_;
  Steps* steps_ = nullptr;    // owned by torch's object
  Reader* reader_ = nullptr;  // owned by the second run's hook
};

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_DISPATCH_CHECKPOINT_SCRIPT_H_
