// CompileId: names one compilation as torch.compile does, [2/1]: the frame's number (a place of a code object where
// compiled code begins), and which compilation of it this is. Logs, explain, traces, errors and profiler regions carry
// it. Invariant: the id at hand is the calling thread's own.
#ifndef FRAMEFUSE_COMMON_COMPILE_ID_H_
#define FRAMEFUSE_COMMON_COMPILE_ID_H_

#include <string>

namespace framefuse {

struct CompileId {
  int frame = -1;  // negative: none
  int compile = 0;
  explicit operator bool() const { return frame >= 0; }
  std::string Text() const;  // "2/1"; empty for none
};

// What this thread compiles, or reports about.
CompileId CurrentCompileId();

class CompileIdScope {
 public:
  explicit CompileIdScope(CompileId id);
  ~CompileIdScope();
  CompileIdScope(const CompileIdScope&) = delete;
  CompileIdScope& operator=(const CompileIdScope&) = delete;

 private:
  CompileId outer_;
};

}  // namespace framefuse

#endif  // FRAMEFUSE_COMMON_COMPILE_ID_H_
