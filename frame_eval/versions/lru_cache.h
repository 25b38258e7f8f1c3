// functools.lru_cache's C object, read past its call: a call counts hits and misses and may run the function.
// Invariant: the layout (the same from 3.11 to 3.13) is tried on an object of known contents before it is used; where
// the trial fails nothing is readable. Results are borrowed from the cache; no user code runs for keys of leaves, and
// none for a HashedKey.
#ifndef FRAMEFUSE_FRAME_EVAL_VERSIONS_LRU_CACHE_H_
#define FRAMEFUSE_FRAME_EVAL_VERSIONS_LRU_CACHE_H_

#include <Python.h>

#include "frame_eval/ref.h"

namespace framefuse::frame_ops {

bool CanReadLruCache(PyObject* wrapper);  // it is one, of the layout known here
// The key under which a call with these arguments is kept. `kwargs` may be null. Null with an error set.
Ref LruCacheKey(PyObject* wrapper, PyObject* args, PyObject* kwargs);
PyObject* LruCacheFunction(PyObject* wrapper);  // what a miss calls; __wrapped__ is only a note of it
// Null without an error: not there. Of a HashedKey also that key itself: another key has its hash, and whether they are
// equal only Python code could tell.
PyObject* LruCachedResult(PyObject* wrapper, PyObject* key);
// A key of the cache with what it hashes to, for keys in which Python code does that. It is equal to a key whose parts
// are the same objects, or plain texts and numbers that are equal: no Python code runs to compare them.
Ref HashedKey(PyObject* key, Py_hash_t hash);
bool IsHashedKey(PyObject* key);
PyObject* KeyIn(PyObject* hashed_key);
PyObject* KeyMet(PyObject* hashed_key);  // the key with the same hash that LruCachedResult met last; null: none
// At most so many results are kept; negative: there is no bound.
Py_ssize_t LruCacheMaximum(PyObject* wrapper);
// The keys and the results that may be dropped when one more is kept; null with an error set.
Ref LruCacheDroppable(PyObject* wrapper);
// As a call that finds nothing and whose function returns `result`: the function is not run. False with an error set.
[[nodiscard]] bool KeepInLruCache(PyObject* wrapper, PyObject* args, PyObject* kwargs, PyObject* result);

}  // namespace framefuse::frame_ops

#endif  // FRAMEFUSE_FRAME_EVAL_VERSIONS_LRU_CACHE_H_
