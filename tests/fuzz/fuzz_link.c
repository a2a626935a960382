/* A process that means harm at the other end of shared memory: any bytes in the ring, any positions, headers that are
 * right but for a bit. Messages come out whole and within bounds, or the link is broken; nothing else.
 *
 * The input is a script: a byte that says what to do, then what that needs. */
#include "net/shm_link.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { JOB = 7, STEPS = 200 };

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

/* Up to `size` bytes of the script; zeros behind its end. */
static void take(const uint8_t **at, size_t *left, void *out, size_t size) {
  size_t have = *left < size ? *left : size;
  memset(out, 0, size);
  if (have) memcpy(out, *at, have);
  *at += have;
  *left -= have;
}

/* What the other process would do. Returns false at the end of the script. */
static bool act(ring *theirs, const uint8_t **at, size_t *left) {
  uint8_t what, record[WIRE_HEADER], flip[2];
  uint16_t payload, grains;
  uint64_t position;
  if (!*left) return false;
  take(at, left, &what, 1);
  uint8_t *place = theirs->data + atomic_load(&theirs->positions->head) % theirs->capacity / RING_GRAIN * RING_GRAIN;
  switch (what % 5) {
    case 0: /* raw bytes */
      take(at, left, record, sizeof record);
      memcpy(place, record, sizeof record);
      break;
    case 1: /* a good header, of any length */
    case 2: /* the same with a bit flipped */
      take(at, left, &payload, sizeof payload);
      take(at, left, flip, sizeof flip);
      wire_encode(&(net_header){.kind = what, .from = 1}, JOB, (uint64_t)payload * (what & 16 ? 64 : 1), record);
      if (!(what & 32) && payload < 4096) /* of what lies there now */
        wire_seal(record, wire_checksum_of(&(net_part){place + WIRE_HEADER, payload}, 1));
      if (what % 5 == 2) record[flip[0] % WIRE_HEADER] ^= (uint8_t)(1 << flip[1] % 8);
      memcpy(place, record, sizeof record);
      break;
    case 3: /* some more is there */
      take(at, left, &grains, sizeof grains);
      atomic_fetch_add(&theirs->positions->head, (uint64_t)grains * RING_GRAIN);
      break;
    default: /* a position out of nowhere */
      take(at, left, &position, sizeof position);
      atomic_store(&theirs->positions->head, position);
  }
  return true;
}

static void check(shm_link *l, size_t largest, const net_message *m) {
  unsigned sum = 0;
  if (m->bytes > largest || m->header.kind >= NET_GONE || (uintptr_t)m->payload % 64) __builtin_trap();
  for (size_t i = 0; i < m->bytes; i++) sum += m->payload[i];
  __asm__ volatile("" ::"r"(sum));
  link_release(l, m->hold);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
  uint8_t size;
  take(&bytes, &n, &size, 1);
  const size_t largest = size & 1 ? 4 << 20 : 5000, capacity = link_capacity(largest);
  int fd;
  shm_segment segment;
  shoal_status status = shm_create(shm_segment_bytes(capacity), &fd);
  if (!status) status = shm_segment_map(fd, capacity, &segment);
  if (status) abort();
  close(fd);
  shm_bell bell = {0};
  ring theirs = segment.requests;
  shm_link link;
  link_init(&link, &segment, true, &bell, JOB, largest);
  bool broken = false;
  for (int i = 0; i < STEPS && !broken && act(&theirs, &bytes, &n); i++) {
    net_message m;
    link_result r;
    do {
      r = link_take(&link, &m);
      if (r == LINK_MESSAGE) check(&link, largest, &m);
    } while (r == LINK_MESSAGE || (r == LINK_NOTHING && link_has_pieces(&link)));
    broken = r == LINK_BROKEN || r == LINK_DAMAGED;
  }
  link_fini(&link);
  return 0;
}
