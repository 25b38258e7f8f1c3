#include "python/log_relay.h"

#include <chrono>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "common/compile_id.h"
#include "frame_eval/hook.h"
#include "symbolic/dispatch/api.h"

namespace framefuse {
namespace {

struct Record {
  LogArtifact artifact;
  std::string text;
  unsigned long thread;
  double seconds;
  std::string compile_id;
};

struct Queue {
  std::mutex mutex;
  std::vector<Record> records;
};
Queue& Waiting() {
  static Queue* const queue = new Queue;  // never destroyed: threads may log at exit
  return *queue;
}

PyObject* receiver = nullptr;
PyObject* trace_receiver = nullptr;
thread_local bool delivering = false;

std::vector<Record> Take() {
  Queue& queue = Waiting();
  const std::lock_guard<std::mutex> lock(queue.mutex);
  SetLogsWaiting(false);
  return std::exchange(queue.records, {});
}

Ref ToList(const std::vector<Record>& records) {
  Ref list = Ref::Steal(PyList_New(0));
  for (const Record& r : records) {
    // Texts quote what users wrote, which need not be UTF-8.
    Ref text =
        Ref::Steal(PyUnicode_DecodeUTF8(r.text.data(), static_cast<Py_ssize_t>(r.text.size()), "backslashreplace"));
    Ref item = text && list ? Ref::Steal(Py_BuildValue("(sOkds)", LogName(r.artifact), text.get(), r.thread, r.seconds,
                                                       r.compile_id.c_str()))
                            : Ref();
    if (!item || PyList_Append(list, item) != 0) return Ref();
  }
  return list;
}

void Deliver() {
  if (delivering || receiver == nullptr || Py_IsInitialized() == 0 || PyGILState_Check() == 0 || IsCapturing()) return;
  delivering = true;
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  {
    const HookScope native(HookMode::kOff);
    for (std::vector<Record> records = Take(); !records.empty(); records = Take()) {
      const Ref list = ToList(records);
      const Ref done = list ? Ref::Steal(PyObject_CallOneArg(receiver, list)) : Ref();
      if (done) continue;
      PyErr_WriteUnraisable(receiver);
    }
    const Ref told = trace_receiver != nullptr ? Ref::Steal(PyObject_CallNoArgs(trace_receiver)) : Ref();
    if (trace_receiver != nullptr && !told) PyErr_WriteUnraisable(trace_receiver);
  }
  PyErr_Restore(type, value, traceback);
  delivering = false;
}

int DeliverPending(void*) {
  Deliver();
  return 0;
}

void Store(LogArtifact artifact, std::string_view text) {
  // What a handler calls is not told of, or each record would make the next.
  if (delivering) return;
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  bool first = false;
  {
    Queue& queue = Waiting();
    const std::lock_guard<std::mutex> lock(queue.mutex);
    first = queue.records.empty();
    queue.records.push_back({artifact, std::string(text), PyThread_get_thread_ident(),
                             std::chrono::duration<double>(now).count(), CurrentCompileId().Text()});
    SetLogsWaiting(true);
  }
  if (first) Py_AddPendingCall(&DeliverPending, nullptr);
}

}  // namespace

void StartLogRelay(Ref deliver) {
  Py_XSETREF(receiver, deliver.release());
  SetLogDelivery(&Deliver);
  SetLogSink(&Store);
}

void SetTraceReceiver(Ref receive) { Py_XSETREF(trace_receiver, receive.release()); }

void StopLogRelay() {
  Deliver();
  SetLogSink({});
  SetLogDelivery(nullptr);
  Deliver();
}

LogSink RelayingSink() { return receiver != nullptr ? LogSink(&Store) : LogSink(); }

}  // namespace framefuse
