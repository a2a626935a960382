/* Stacks are changed by _setjmp and _longjmp, which make no call of the system as swapcontext does; a check that one only
 * jumps up the stack would be in the way. */
#undef _FORTIFY_SOURCE

#include "base/coroutine.h"

#include <errno.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#define FIBERS 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#include <sanitizer/common_interface_defs.h>
#define FIBERS 1
#endif
#endif

#ifdef FIBERS
#define STACK ((size_t)1 << 20) /* its frames are larger */
#else
#define STACK ((size_t)256 << 10) /* bytes; only what is used of them is memory */
#endif

struct coroutine {
  ucontext_t first, caller; /* how it begins, and where its end goes */
  jmp_buf own, back;
  bool begun;
  void (*run)(void *context);
  void *context;
  char *memory; /* a page that is not there, then the stack */
  size_t bytes;
  bool ended;
#ifdef FIBERS
  void *fake, *caller_fake;
  const void *caller_stack;
  size_t caller_bytes;
#endif
};

/* AddressSanitizer is told which stack is in use. */
static void leaves(coroutine *c, bool for_good) {
#ifdef FIBERS
  __sanitizer_start_switch_fiber(for_good ? NULL : &c->fake, c->caller_stack, c->caller_bytes);
#endif
}
static void is_back(coroutine *c) {
#ifdef FIBERS
  __sanitizer_finish_switch_fiber(c->fake, &c->caller_stack, &c->caller_bytes);
#endif
}

/* makecontext hands on integers alone. */
static void begin(unsigned high, unsigned low) {
  coroutine *c = (coroutine *)(((uintptr_t)high << 32) | (uintptr_t)low);
  is_back(c);
  c->run(c->context);
  c->ended = true;
  leaves(c, true);
#ifndef FIBERS
  _longjmp(c->back, 1);
#endif
}

shoal_status coroutine_create(void (*run)(void *context), void *context, coroutine **out) {
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  coroutine *c = calloc(1, sizeof *c);
  if (!c) return status_no_memory();
  c->run = run;
  c->context = context;
  c->bytes = STACK + page;
  c->memory = mmap(NULL, c->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  shoal_status status = c->memory == MAP_FAILED || mprotect(c->memory, page, PROT_NONE) || getcontext(&c->first)
                            ? status_errno(errno, "no stack for one more task")
                            : NULL;
  if (status) {
    if (c->memory != MAP_FAILED) munmap(c->memory, c->bytes);
    free(c);
    return status;
  }
  c->first.uc_stack.ss_sp = c->memory + page;
  c->first.uc_stack.ss_size = STACK;
  c->first.uc_link = &c->caller;
  const uintptr_t self = (uintptr_t)c;
  makecontext(&c->first, (void (*)(void))begin, 2, (unsigned)(self >> 32), (unsigned)self);
  *out = c;
  return NULL;
}

void coroutine_destroy(coroutine *c) {
  if (!c) return;
  munmap(c->memory, c->bytes);
  free(c);
}

void coroutine_resume(coroutine *c) {
#ifdef FIBERS
  __sanitizer_start_switch_fiber(&c->caller_fake, c->memory + c->bytes - STACK, STACK);
  swapcontext(&c->caller, &c->first);
  __sanitizer_finish_switch_fiber(c->caller_fake, NULL, NULL);
#else
  if (!_setjmp(c->back)) {
    if (c->begun) _longjmp(c->own, 1);
    c->begun = true;
    swapcontext(&c->caller, &c->first);
  }
#endif
}

void coroutine_stop(coroutine *c) {
  leaves(c, false);
#ifdef FIBERS
  swapcontext(&c->first, &c->caller); /* the sanitizer has its own _longjmp */
#else
  if (!_setjmp(c->own)) _longjmp(c->back, 1);
#endif
  is_back(c);
}

bool coroutine_ended(const coroutine *c) { return c->ended; }
