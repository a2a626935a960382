/** @file
 * What this machine offers to a training: looked up where the system knows it, measured where it does not. */
#ifndef SHOAL_MACHINE_H
#define SHOAL_MACHINE_H

#include "shoal/status.h"

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Problems that shoal_machine can hold. */
#define SHOAL_MACHINE_PROBLEMS 8
/** Room for one of them. */
#define SHOAL_PROBLEM_TEXT 240

/** A machine as this process sees it. What the system does not tell is empty or -1. */
typedef struct {
  char system[120];             /**< release of the kernel and name of the host */
  char processor[96];           /**< as it calls itself */
  char instructions[120];       /**< sets of them that speed up computing, with blanks; "": only the basic ones */
  char kernels[16];             /**< which ones "auto" chooses: "generic", "avx2", "avx512" */
  int cores;                    /**< that are online */
  int usable_cores;             /**< of them for this process */
  double flops;                 /**< operations a second of one thread, by multiply-adds; 0: not measured */
  int64_t memory_bytes;         /**< in all */
  int64_t memory_free_bytes;    /**< that programs can still have */
  double copy_bytes_per_second; /**< read and written by one thread that copies; 0: not measured */
  char huge_pages[32];          /**< "always", "madvise", "never" */
  int64_t open_files;           /**< that this process may have */
  bool shared_memory;           /**< tasks of this host can talk through it */
  bool curve;                   /**< this ZeroMQ knows keys, which other hosts are reached with */
  char zeromq[16];              /**< its version */
  char libraries[120];          /**< the others that every build has, with their versions */
  char optional_libraries[120]; /**< those that a build can go without */
  /** What would slow a training down or keep it from running, and what to do about it, one sentence each. */
  char problems[SHOAL_MACHINE_PROBLEMS][SHOAL_PROBLEM_TEXT];
  int n_problems;     /**< how many of them there are */
  double reserved[4]; /**< 0: for fields to come */
} shoal_machine;

/** Looks everything up and measures the rates, which takes half a second or so. Any thread. */
SHOAL_API void shoal_machine_inspect(shoal_machine *out);
/** Bytes that programs can still have, at once; -1: the system does not tell. Any thread. */
SHOAL_API int64_t shoal_machine_memory_free(void);
/** Operations a second that one thread reaches by multiply-adds with the widest vectors there are, in about 10 ms. 0:
 * not known for this processor. Any thread, also several at once. */
SHOAL_API double shoal_machine_flops(void);

/** How fast this machine multiplies two square matrices of f32 with all its processors: what a product that is spread
 * over several tasks is measured by. Rates are operations a second, the best of several runs; a product of `side` rows
 * counts as 2 side^3. */
typedef struct {
  double own;         /**< by the kernels of this library */
  double blas;        /**< by the BLAS library that is installed; 0: none was found */
  const char *name;   /**< file of that library, constant; NULL: none was found */
  double reserved[4]; /**< 0: for fields to come */
} shoal_gemm_baseline;

/** Tries each for `seconds`, three times at least. Loads the BLAS library, which then stays loaded. One thread at a
 * time. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_gemm_baseline_measure(int64_t side, double seconds,
                                                                 shoal_gemm_baseline *out);

#ifdef __cplusplus
}
#endif
#endif
