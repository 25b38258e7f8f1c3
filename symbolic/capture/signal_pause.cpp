#include "symbolic/capture/signal_pause.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>

namespace framefuse {
namespace {

// What a program handles in Python, and no signal of a fault.
constexpr int kSignals[] = {SIGHUP,  SIGINT,  SIGQUIT,   SIGTERM, SIGALRM, SIGUSR1,
                            SIGUSR2, SIGCHLD, SIGVTALRM, SIGPROF, SIGIO};

std::atomic<std::uint64_t> arrived{0};
bool paused = false;  // of the main thread only

void Note(int signal) { arrived.fetch_or(std::uint64_t{1} << signal); }

bool OnMainThread() { return syscall(SYS_gettid) == getpid(); }

}  // namespace

SignalPause::SignalPause() {
  if (!OnMainThread() || paused) return;
  paused = true;
  arrived.store(0);
  for (int signal : kSignals) {
    struct sigaction now {};
    if (sigaction(signal, nullptr, &now) != 0) continue;
    if ((now.sa_flags & SA_SIGINFO) == 0 && (now.sa_handler == SIG_DFL || now.sa_handler == SIG_IGN)) continue;
    struct sigaction note = now;
    note.sa_flags &= ~SA_SIGINFO;
    note.sa_handler = Note;
    if (sigaction(signal, &note, nullptr) == 0) former_.emplace_back(signal, now);
  }
  if (former_.empty()) paused = false;
}

SignalPause::~SignalPause() {
  if (former_.empty()) return;
  for (const auto& [signal, action] : former_) sigaction(signal, &action, nullptr);
  paused = false;
  const std::uint64_t seen = arrived.exchange(0);
  for (const auto& [signal, action] : former_) {
    if ((seen >> signal) & 1U) raise(signal);
  }
}

bool SignalPause::HasArrived() { return arrived.load(std::memory_order_relaxed) != 0 && OnMainThread(); }

}  // namespace framefuse
