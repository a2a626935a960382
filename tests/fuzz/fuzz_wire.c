/* Any bytes at all, as the header of a message: refused with a reason, or a header that encodes to the same bytes. */
#include "net/wire.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
  const uint64_t largest = 1 << 20;
  net_header header = {.step = 77};
  uint64_t job = 78, payload = 79;
  uint8_t again[WIRE_HEADER];
  const char *wrong = wire_decode(bytes, n, largest, &header, &job, &payload);
  if (wrong) {
    if (header.step != 77 || job != 78 || payload != 79) __builtin_trap(); /* outputs are set only on success */
  } else {
    if (n != WIRE_HEADER || payload > largest) __builtin_trap();
    wire_encode(&header, job, payload, again);
    wire_seal(again, wire_checksum(bytes));
    if (memcmp(again, bytes, WIRE_HEADER)) __builtin_trap();
  }
  /* The same bytes as fields: what was encoded is decoded, and no single flipped bit goes through. */
  if (n < 44) return 0;
  memcpy(&header.kind, bytes, 2);
  memcpy(&header.flags, bytes + 2, 2);
  memcpy(&header.from, bytes + 4, 4);
  memcpy(&header.generation, bytes + 8, 8);
  memcpy(&header.step, bytes + 16, 8);
  memcpy(&header.number, bytes + 24, 8);
  memcpy(&job, bytes + 32, 8);
  payload = bytes[40] | (uint64_t)bytes[41] << 8;
  wire_encode(&header, job, payload, again);
  wire_seal(again, (uint32_t)payload * 2654435761u);
  if (wire_checksum(again) != (uint32_t)payload * 2654435761u) __builtin_trap();
  net_header back;
  uint64_t job_back, payload_back;
  if (wire_decode(again, sizeof again, largest, &back, &job_back, &payload_back) || back.kind != header.kind ||
      back.flags != header.flags || back.from != header.from || back.generation != header.generation ||
      back.step != header.step || back.number != header.number || job_back != job || payload_back != payload)
    __builtin_trap();
  again[bytes[42] % WIRE_HEADER] ^= (uint8_t)(1 << bytes[43] % 8);
  if (!wire_decode(again, sizeof again, largest, &back, &job_back, &payload_back)) __builtin_trap();
  return 0;
}
