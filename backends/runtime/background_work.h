// One queue of work for the process, done by threads that hold no GIL while the program goes on (config.background).
// Invariant: what was handed in runs once; or never, where the process forks or stops the queue before it has begun.
// Threads end when there is nothing to do, so that a fork seldom meets one.
#ifndef FRAMEFUSE_BACKENDS_RUNTIME_BACKGROUND_WORK_H_
#define FRAMEFUSE_BACKENDS_RUNTIME_BACKGROUND_WORK_H_

#include <functional>

namespace framefuse {

void RunInBackground(std::function<void()> work);
// Until all that was handed in is done. The caller does not hold the GIL: work may log.
void WaitForBackground();
// Forgets what has not begun, waits for what has, and takes no more: the process ends. Without the GIL, too.
void StopBackground();

}  // namespace framefuse

#endif  // FRAMEFUSE_BACKENDS_RUNTIME_BACKGROUND_WORK_H_
