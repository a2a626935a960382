#include "net/shm_ring.h"

#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { CLOSED = 1 }; /* in a producer's position, which is a multiple of RING_GRAIN */

size_t shm_page_bytes(void) { return (size_t)sysconf(_SC_PAGESIZE); }

shoal_status shm_create(size_t bytes, int *out) {
  int fd = memfd_create("shoal", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0) return status_errno(errno, "shared memory");
  if (ftruncate(fd, (off_t)bytes) || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)) {
    shoal_status status = status_errno(errno, "%zu bytes of shared memory", bytes);
    close(fd);
    return status;
  }
  *out = fd;
  return NULL;
}

bool shm_sound(int fd, size_t bytes) {
  struct stat about;
  int seals = fcntl(fd, F_GET_SEALS);
  return seals >= 0 && (seals & F_SEAL_SHRINK) && !fstat(fd, &about) && about.st_size == (off_t)bytes;
}

size_t shm_segment_bytes(size_t capacity) { return shm_page_bytes() + 2 * capacity; }

/* The same `bytes` of the file at two neighbouring addresses. */
static shoal_status map_twice(int fd, size_t offset, size_t bytes, uint8_t **out) {
  uint8_t *place = mmap(NULL, 2 * bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (place == MAP_FAILED) return status_errno(errno, "%zu bytes of addresses", 2 * bytes);
  for (int i = 0; i < 2; i++)
    if (mmap(place + (size_t)i * bytes, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, (off_t)offset) ==
        MAP_FAILED) {
      shoal_status status = status_errno(errno, "mapping %zu bytes of shared memory", bytes);
      munmap(place, 2 * bytes);
      return status;
    }
  *out = place;
  return NULL;
}

shoal_status shm_segment_map(int fd, size_t capacity, shm_segment *out) {
  const size_t page = shm_page_bytes();
  shm_segment s = {0};
  s.page = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (s.page == MAP_FAILED) return status_errno(errno, "mapping shared memory");
  s.requests = (ring){.positions = &s.page->requests, .capacity = capacity};
  s.answers = (ring){.positions = &s.page->answers, .capacity = capacity};
  shoal_status status = map_twice(fd, page, capacity, &s.requests.data);
  if (!status) status = map_twice(fd, page + capacity, capacity, &s.answers.data);
  if (status)
    shm_segment_unmap(&s);
  else
    *out = s;
  return status;
}

void shm_segment_unmap(shm_segment *s) {
  if (s->requests.data) munmap(s->requests.data, 2 * s->requests.capacity);
  if (s->answers.data) munmap(s->answers.data, 2 * s->answers.capacity);
  if (s->page) munmap(s->page, shm_page_bytes());
  *s = (shm_segment){0};
}

bool ring_space(ring *r, size_t *bytes) {
  uint64_t tail = atomic_load_explicit(&r->positions->tail, memory_order_acquire);
  if (tail < r->theirs || tail > r->mine || tail % RING_GRAIN) return false;
  r->theirs = tail;
  *bytes = r->capacity - (size_t)(r->mine - tail);
  return true;
}

bool ring_filled(ring *r, size_t *bytes) {
  uint64_t head = atomic_load_explicit(&r->positions->head, memory_order_acquire);
  if (r->closed) head &= ~(uint64_t)CLOSED;
  if (head < r->theirs || head < r->mine || head - r->mine > r->capacity || head % RING_GRAIN) return false;
  r->theirs = head;
  *bytes = (size_t)(head - r->mine);
  return true;
}

bool ring_publish(ring *r, size_t bytes) {
  uint64_t before = r->mine;
  r->mine += bytes;
  return atomic_compare_exchange_strong_explicit(&r->positions->head, &before, r->mine, memory_order_release,
                                                 memory_order_relaxed);
}

void ring_close(ring *r) {
  atomic_fetch_or_explicit(&r->positions->head, CLOSED, memory_order_acq_rel);
  r->closed = true;
}

void ring_give_back(ring *r, uint64_t position) {
  atomic_store_explicit(&r->positions->tail, position, memory_order_release);
}

/* The fence pairs with the one in bell_prepare: either the sleeper sees what was published, or we see it sleep. */
void bell_ring(shm_bell *b) {
  atomic_thread_fence(memory_order_seq_cst);
  if (!atomic_load_explicit(&b->sleeping, memory_order_relaxed)) return;
  if (!atomic_exchange(&b->sleeping, 0)) return; /* somebody else wakes it */
  atomic_fetch_add(&b->count, 1);
  syscall(SYS_futex, &b->count, FUTEX_WAKE, 1, NULL, NULL, 0);
}

uint32_t bell_prepare(shm_bell *b) {
  uint32_t seen = atomic_load(&b->count);
  atomic_store(&b->sleeping, 1);
  atomic_thread_fence(memory_order_seq_cst);
  return seen;
}

void bell_sleep(shm_bell *b, uint32_t seen, double seconds) {
  struct timespec limit = {.tv_sec = (time_t)seconds, .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9)};
  syscall(SYS_futex, &b->count, FUTEX_WAIT, seen, &limit, NULL, 0);
}

void bell_awake(shm_bell *b) { atomic_store_explicit(&b->sleeping, 0, memory_order_relaxed); }
