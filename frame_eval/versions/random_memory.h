// random.Random's C part, past its methods: the words of its Mersenne Twister, and where in them it is.
// Invariant: the layout (the same from 3.11 to 3.14) is tried on a generator of known state before it is used; where
// the trial fails no generator has such memory. `gauss_next`, which gauss() keeps, is an attribute beside it.
#ifndef FRAMEFUSE_FRAME_EVAL_VERSIONS_RANDOM_MEMORY_H_
#define FRAMEFUSE_FRAME_EVAL_VERSIONS_RANDOM_MEMORY_H_

#include <Python.h>

#include <cstddef>

namespace framefuse::frame_ops {

inline constexpr std::size_t kRandomMemorySize = 625 * sizeof(unsigned int);
char* RandomMemoryOf(PyObject* generator);  // an instance of random.Random; null: its layout is not known

}  // namespace framefuse::frame_ops

#endif  // FRAMEFUSE_FRAME_EVAL_VERSIONS_RANDOM_MEMORY_H_
