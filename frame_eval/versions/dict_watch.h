// dict_watch: to be told when certain dicts change, where CPython offers that (3.12).
// Invariant: from WatchDict on every change of the dict's keys or values, and its end, is told before it happens. The
// function runs under the GIL inside the change: it must call nothing of Python's. One watcher a process.
#ifndef FRAMEFUSE_FRAME_EVAL_VERSIONS_DICT_WATCH_H_
#define FRAMEFUSE_FRAME_EVAL_VERSIONS_DICT_WATCH_H_

#include <Python.h>

namespace framefuse::frame_ops {

using DictChange = void (*)(PyObject* dict, bool ends);

bool StartDictWatcher(DictChange tell);  // false: this Python has none, or others took them all
bool WatchDict(PyObject* dict);          // false: not all of its changes would be told

}  // namespace framefuse::frame_ops

#endif  // FRAMEFUSE_FRAME_EVAL_VERSIONS_DICT_WATCH_H_
