#include "backends/runtime/background_work.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

namespace framefuse {
namespace {

struct Queue {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::function<void()>> waiting;
  unsigned running = 0, threads = 0;
  bool stopped = false;
};

std::atomic<Queue*>& Slot() {
  static std::atomic<Queue*> slot = nullptr;
  return slot;
}

// Never destroyed: threads may outlive main(). A child of fork has none of the threads and begins anew.
Queue& TheQueue() {
  static const bool made = [] {
    Slot() = new Queue;
    pthread_atfork([] { Slot().load()->mutex.lock(); }, [] { Slot().load()->mutex.unlock(); },
                   [] { Slot() = new Queue; });
    return true;
  }();
  (void)made;
  return *Slot().load();
}

// Half of the processors stay the program's.
unsigned MostThreads() { return std::clamp(std::thread::hardware_concurrency() / 2, 1U, 8U); }

void Work(Queue& queue) {
  std::unique_lock lock(queue.mutex);
  while (!queue.waiting.empty()) {
    std::function<void()> work = std::move(queue.waiting.front());
    queue.waiting.pop_front();
    ++queue.running;
    lock.unlock();
    work();
    work = nullptr;
    lock.lock();
    --queue.running;
  }
  --queue.threads;
  queue.changed.notify_all();
}

}  // namespace

void RunInBackground(std::function<void()> work) {
  Queue& queue = TheQueue();
  const std::lock_guard lock(queue.mutex);
  if (queue.stopped) return;
  queue.waiting.push_back(std::move(work));
  if (queue.threads == MostThreads()) return;
  ++queue.threads;
  std::thread([&queue] { Work(queue); }).detach();
}

void WaitForBackground() {
  Queue& queue = TheQueue();
  std::unique_lock lock(queue.mutex);
  queue.changed.wait(lock, [&] { return queue.threads == 0; });
}

void StopBackground() {
  Queue& queue = TheQueue();
  std::unique_lock lock(queue.mutex);
  queue.stopped = true;
  queue.waiting.clear();
  queue.changed.wait(lock, [&] { return queue.threads == 0; });
}

}  // namespace framefuse
