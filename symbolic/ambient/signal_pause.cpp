#include "symbolic/ambient/signal_pause.h"

#include <atomic>

#include "frame_eval/import_module.h"
#include "frame_eval/ref.h"
#include "frame_eval/versions/frame_ops.h"

namespace framefuse {
namespace {

// What a program handles in Python, and no signal of a fault.
constexpr int kSignals[] = {SIGHUP,  SIGINT,  SIGQUIT,   SIGTERM, SIGALRM, SIGUSR1,
                            SIGUSR2, SIGCHLD, SIGVTALRM, SIGPROF, SIGIO};

std::atomic<std::uint64_t> arrived{0};
bool paused = false;  // of the main thread only

void Note(int signal) { arrived.fetch_or(std::uint64_t{1} << signal); }

// The interpreter is asked, for each look at the process's table is a system call.
bool HasPythonHandler(int signal) {
  static PyObject* const getsignal = [] {
    const Ref module = ImportModule("_signal");
    return module ? PyObject_GetAttrString(module, "getsignal") : nullptr;
  }();
  const Ref number = Ref::Steal(PyLong_FromLong(signal));
  const Ref handler = getsignal != nullptr ? Ref::Steal(PyObject_CallOneArg(getsignal, number)) : Ref();
  if (!handler) PyErr_Clear();
  return handler && PyCallable_Check(handler.get()) != 0;
}

}  // namespace

SignalPause::SignalPause() {
  if (!frame_ops::IsMainThread() || paused) return;
  paused = true;
  arrived.store(0);
  struct sigaction note {};
  note.sa_handler = Note;
  note.sa_flags = SA_ONSTACK;
  for (int signal : kSignals) {
    struct sigaction now {};
    if (HasPythonHandler(signal) && sigaction(signal, &note, &now) == 0) former_.emplace_back(signal, now);
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

bool SignalPause::HasArrived() { return arrived.load(std::memory_order_relaxed) != 0 && frame_ops::IsMainThread(); }

}  // namespace framefuse
