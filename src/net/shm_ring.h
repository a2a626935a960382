/* Shared memory between two processes: sealed segments, byte rings mapped twice in a row so that every record lies in
 * one piece, and bells on which a process sleeps.
 *
 * What the other process can write is never trusted:
 *  1. A segment cannot shrink under us: it is sealed before it is handed over, and the seal is looked at.
 *  2. Each side keeps its own position privately; the other's is checked each time it is read.
 *  3. A position is written after the bytes it covers: of a process that dies while writing nothing is half-seen.
 *  4. A consumer may close a ring: a mark in the producer's position, set in one atomic step. Either the producer published
 *     before, and the consumer sees it, or it is told that it came too late. */
#ifndef SHOAL_NET_SHM_RING_H
#define SHOAL_NET_SHM_RING_H

#include "base/status.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { RING_GRAIN = 64 }; /* positions and records are multiples of it */

typedef struct {
  _Alignas(64) _Atomic uint32_t count;
  _Atomic uint32_t sleeping; /* 1 while the owner sleeps or is about to */
} shm_bell;

typedef struct {
  _Alignas(64) _Atomic uint64_t head; /* bytes ever written: the producer's */
  _Alignas(64) _Atomic uint64_t tail; /* bytes ever given back: the consumer's */
} ring_positions;

/* One process's view of one ring. */
typedef struct {
  ring_positions *positions;
  uint8_t *data; /* [2 * capacity], the second half is the first again */
  size_t capacity;
  uint64_t mine;   /* producer: bytes written; consumer: bytes looked at */
  uint64_t theirs; /* the other's position as last seen */
  bool closed;     /* consumer: by ring_close */
} ring;

/* The first page of a connection's segment; the data of the two rings follow, at a page each. */
typedef struct {
  ring_positions requests, answers;
  shm_bell bell; /* the client's */
} shm_page;

typedef struct {
  shm_page *page;
  ring requests, answers;
} shm_segment;

size_t shm_page_bytes(void);

/* A new sealed segment of `bytes`; the caller closes *fd. */
SHOAL_CHECKED shoal_status shm_create(size_t bytes, int *fd);
/* Whether fd is a segment of exactly these bytes that cannot shrink. */
bool shm_sound(int fd, size_t bytes);

size_t shm_segment_bytes(size_t capacity);
/* capacity: of each ring, a multiple of the page size. The descriptor may be closed afterwards. */
SHOAL_CHECKED shoal_status shm_segment_map(int fd, size_t capacity, shm_segment *out);
void shm_segment_unmap(shm_segment *s);

/* Producer: free bytes; consumer: bytes there to be looked at. False when the other's position is impossible. */
bool ring_space(ring *r, size_t *bytes);
bool ring_filled(ring *r, size_t *bytes);
static inline uint8_t *ring_at(const ring *r) { return r->data + r->mine % r->capacity; }
/* Makes `bytes` more visible to the consumer. False: it has closed the ring, and will never see them. */
bool ring_publish(ring *r, size_t bytes);
/* Consumer: what was not published before never will be. */
void ring_close(ring *r);
/* Gives back all before `position`. */
void ring_give_back(ring *r, uint64_t position);

/* After publishing or giving back: wakes the owner of the bell if it sleeps. */
void bell_ring(shm_bell *b);
/* The owner's order: bell_prepare, look once more, then bell_sleep (if there still is nothing) and bell_awake. */
uint32_t bell_prepare(shm_bell *b);
void bell_sleep(shm_bell *b, uint32_t seen, double seconds);
void bell_awake(shm_bell *b);

#endif
