#include "symbolic/calls/log_calls.h"

#include <utility>
#include <vector>

#include "symbolic/frames/user_stack.h"
#include "symbolic/journals/frame_stack.h"
#include "symbolic/journals/object_table.h"
#include "symbolic/journals/read_journal.h"
#include "symbolic/journals/tracked.h"
#include "symbolic/journals/write_journal.h"
#include "symbolic/rules/call_rules.h"

namespace framefuse {
namespace {

enum LogArgument : std::uint8_t { kEmit, kFileOfLogging, kSettled, kLogger, kLevel, kMessage, kArguments, kCount };

// What logging.Logger.findCaller finds, or null: a frame that is not captured may stand in between.
const Activation* CallerOf(const FrameStack& frames, BorrowedRef file_of_logging) {
  const auto& all = frames.all();
  for (auto frame = all.rbegin(); frame != all.rend(); ++frame) {
    PyCodeObject* code = frame_ops::Code((*frame)->frame);
    if (!IsOwnCode(code) && PyUnicode_Compare(code->co_filename, file_of_logging) != 0) return *frame;
    if ((*frame)->completion == Completion::kCallback) return nullptr;
  }
  return nullptr;
}

// A text that another call may bring would be a guard for each.
bool HasChangingText(ReadJournal& reads, PyObject* tuple) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i) {
    PyObject* item = PyTuple_GET_ITEM(tuple, i);
    if (!PyUnicode_Check(item)) continue;
    const SourceId source = reads.SourceOfConsumed(item);
    if (source != kNoSource && reads.sources()[source].kind != SourceKind::kConstant) return true;
  }
  return false;
}

// The objects that a tuple holds, or nothing: the frame has written one.
std::optional<std::vector<const Tracked*>> Unwritten(ObjectTable& objects, PyObject* tuple) {
  std::vector<const Tracked*> found;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i) {
    const Tracked* t = objects.Find(PyTuple_GET_ITEM(tuple, i));
    if (t == nullptr || t->mutated() || (t->dict != nullptr && t->dict->mutated())) return std::nullopt;
    found.push_back(t);
    if (t->dict != nullptr) found.push_back(t->dict);
  }
  return found;
}

}  // namespace

bool DeferLog(const FrameStack& frames, ReadJournal& reads, ObjectTable& objects, WriteJournal& writes,
              absl::Span<const ValueView> args) {
  if (args.size() != kCount || !PyTuple_Check(args[kSettled].object.get())) return false;
  PyObject* values = args[kArguments].object.get();
  if (!PyUnicode_Check(args[kFileOfLogging].object.get()) || !PyTuple_Check(values)) return false;
  if (HasChangingText(reads, values)) return false;
  const Activation* caller = CallerOf(frames, args[kFileOfLogging].object);
  auto settled = Unwritten(objects, args[kSettled].object.get());
  if (caller == nullptr || !settled) return false;
  PyCodeObject* code = frame_ops::Code(caller->frame);
  const Ref line = Ref::Steal(PyLong_FromLong(PlaceOf(caller->frame, caller->instruction).line));
  CachedCall call;
  call.wrapper = Ref::Create(args[kEmit].object);
  call.args = Ref::Steal(PyTuple_Pack(7, args[kLogger].object.get(), args[kLevel].object.get(), code->co_filename,
                                      line.get(), code->co_name, args[kMessage].object.get(), values));
  if (!call.args) return false;
  call.deferred = true;
  call.always = true;
  writes.AddCall(std::move(call));
  writes.Settle(*settled);
  return true;
}

}  // namespace framefuse
