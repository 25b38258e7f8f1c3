/* framefuse_run: runs what framefuse.export packaged, without Python: libframefuse_run and LibTorch (docs/export.md).
 * A package may be run by any number of threads at once. No gradients. A function that fails returns NULL or -1, and
 * framefuse_last_error() of the same thread says why; nothing is thrown. */
#ifndef FRAMEFUSE_RUNNER_FRAMEFUSE_RUN_H_
#define FRAMEFUSE_RUNNER_FRAMEFUSE_RUN_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define FRAMEFUSE_RUN_API __attribute__((visibility("default")))

typedef enum framefuse_dtype {
  FRAMEFUSE_F32 = 0,
  FRAMEFUSE_F64 = 1,
  FRAMEFUSE_F16 = 2,
  FRAMEFUSE_BF16 = 3,
  FRAMEFUSE_I64 = 4,
  FRAMEFUSE_I32 = 5,
  FRAMEFUSE_I16 = 6,
  FRAMEFUSE_I8 = 7,
  FRAMEFUSE_U8 = 8,
  FRAMEFUSE_BOOL = 9,
  FRAMEFUSE_C64 = 10,
  FRAMEFUSE_OTHER = 11 /* of results only: see the package's signature */
} framefuse_dtype;

typedef struct framefuse_tensor {
  void* data; /* the first element */
  framefuse_dtype dtype;
  int32_t rank;
  const int64_t* sizes;
  const int64_t* strides; /* in elements; NULL: row by row */
  int32_t gpu;            /* its number; -1: the memory is the CPU's */
} framefuse_tensor;

typedef struct framefuse_package framefuse_package;
typedef struct framefuse_results framefuse_results;

/* `sha256`: 64 hexadecimal digits that the file's hash must have, or NULL. Kernels are made now, of the graph's text.
 */
FRAMEFUSE_RUN_API framefuse_package* framefuse_load(const char* path, const char* sha256);
FRAMEFUSE_RUN_API void framefuse_free(framefuse_package* package);

FRAMEFUSE_RUN_API int32_t framefuse_argument_count(const framefuse_package* package);
FRAMEFUSE_RUN_API int32_t framefuse_result_count(const framefuse_package* package);
/* Lives as long as the package; NULL: there is no such argument. */
FRAMEFUSE_RUN_API const char* framefuse_argument_name(const framefuse_package* package, int32_t argument);
/* Arguments, results and what sizes must meet, a line each. Lives as long as the package. */
FRAMEFUSE_RUN_API const char* framefuse_signature(const framefuse_package* package);

/* The arguments' memory is read, not kept. */
FRAMEFUSE_RUN_API framefuse_results* framefuse_run(const framefuse_package* package, const framefuse_tensor* arguments,
                                                   int32_t argument_count);
/* Lives as long as the results; its memory may be an argument's own where the program returns a view of one. */
FRAMEFUSE_RUN_API const framefuse_tensor* framefuse_result(const framefuse_results* results, int32_t result);
FRAMEFUSE_RUN_API void framefuse_free_results(framefuse_results* results);

/* Of this thread's last call that failed; valid until its next call here. */
FRAMEFUSE_RUN_API const char* framefuse_last_error(void);

#ifdef __cplusplus
}
#endif

#endif
