#include "frame_eval/versions/internal.h"
// internal.h first: it changes what Python.h declares.
#include "frame_eval/versions/dict_reads.h"

namespace framefuse::frame_ops {

bool HasOnlyStringKeys(PyObject* dict) { return DK_IS_UNICODE(reinterpret_cast<PyDictObject*>(dict)->ma_keys); }

}  // namespace framefuse::frame_ops
