#include "frame_eval/versions/dict_watch.h"

#include "frame_eval/versions/dict_reads.h"

namespace framefuse::frame_ops {

#if PY_VERSION_HEX >= 0x030C0000

namespace {

DictChange tell_change = nullptr;
int watcher = -1;

int OnEvent(PyDict_WatchEvent event, PyObject* dict, PyObject*, PyObject*) {
  tell_change(dict, event == PyDict_EVENT_DEALLOCATED);
  return 0;
}

}  // namespace

bool StartDictWatcher(DictChange tell) {
  tell_change = tell;
  if (watcher < 0) watcher = PyDict_AddWatcher(OnEvent);
  if (watcher < 0) PyErr_Clear();
  return watcher >= 0;
}

bool WatchDict(PyObject* dict) {
#if PY_VERSION_HEX >= 0x030D0000
  if (SharesItsObjectsValues(dict)) return false;
#endif
  if (PyDict_Watch(watcher, dict) == 0) return true;
  PyErr_Clear();
  return false;
}

#else

bool StartDictWatcher(DictChange) { return false; }
bool WatchDict(PyObject*) { return false; }

#endif

}  // namespace framefuse::frame_ops
