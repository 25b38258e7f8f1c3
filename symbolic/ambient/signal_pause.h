// SignalPause: while one lives on the main thread, signals that have a Python handler are put off: it would run in the
// middle of an attempt, inside whatever native frame it is in, and what it raises would be dropped with the
// attempt. At the end the handlers are put back and the signals raised anew, for the interpreter to serve where the
// user's code goes on. Invariant: a signal that arrived is raised at least once; other threads and nested pauses change
// nothing.
#ifndef FRAMEFUSE_SYMBOLIC_AMBIENT_SIGNAL_PAUSE_H_
#define FRAMEFUSE_SYMBOLIC_AMBIENT_SIGNAL_PAUSE_H_

#include <csignal>
#include <utility>
#include <vector>

namespace framefuse {

class SignalPause {
 public:
  SignalPause();
  ~SignalPause();
  SignalPause(const SignalPause&) = delete;
  SignalPause& operator=(const SignalPause&) = delete;

  static bool HasArrived();  // one was put off by the pause of this thread

 private:
  std::vector<std::pair<int, struct sigaction>> former_;
};

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_AMBIENT_SIGNAL_PAUSE_H_
