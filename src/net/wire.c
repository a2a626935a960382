#include "net/wire.h"

#include "base/crc32c.h"

#include <stdio.h>

static void put(uint8_t *out, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; i++) out[i] = (uint8_t)(value >> 8 * i);
}

static uint64_t get(const uint8_t *in, int bytes) {
  uint64_t value = 0;
  for (int i = 0; i < bytes; i++) value |= (uint64_t)in[i] << 8 * i;
  return value;
}

static uint32_t checksum(const uint8_t *header) { return crc32c(0, header, WIRE_HEADER - 4); }

void wire_encode(const net_header *header, uint64_t job, uint64_t bytes, uint8_t out[WIRE_HEADER]) {
  put(out, WIRE_MAGIC, 4);
  put(out + 4, WIRE_VERSION, 2);
  put(out + 6, WIRE_HEADER, 2);
  put(out + 8, header->kind, 2);
  put(out + 10, header->flags, 2);
  put(out + 12, header->from, 4);
  put(out + 16, job, 8);
  put(out + 24, header->generation, 8);
  put(out + 32, header->step, 8);
  put(out + 40, header->number, 8);
  put(out + 48, bytes, 8);
  put(out + 56, 0, 4);
  put(out + 60, checksum(out), 4);
}

void wire_seal(uint8_t header[WIRE_HEADER], uint32_t of_payload) {
  put(header + 56, of_payload, 4);
  put(header + 60, checksum(header), 4);
}

uint32_t wire_checksum_of(const net_part *parts, int n) {
  uint32_t crc = 0;
  for (int i = 0; i < n; i++) crc = crc32c(crc, parts[i].data, parts[i].bytes);
  return crc;
}

uint32_t wire_checksum(const uint8_t header[WIRE_HEADER]) { return (uint32_t)get(header + 56, 4); }

uint16_t wire_other_version(const uint8_t *in, size_t n) {
  const uint16_t version = n >= 6 && get(in, 4) == WIRE_MAGIC ? (uint16_t)get(in + 4, 2) : WIRE_VERSION;
  return version == WIRE_VERSION ? 0 : version;
}

void wire_name_versions(uint16_t other, char *words, size_t room) {
  snprintf(words, room,
           "one side speaks version %u of the protocol, the other version %u: install the same version "
           "of Shoal on all hosts",
           other, WIRE_VERSION);
}

const char *wire_decode(const uint8_t *in, size_t n, uint64_t largest, net_header *header, uint64_t *job,
                        uint64_t *bytes) {
  if (n != WIRE_HEADER) return "the header does not have 64 bytes";
  if (get(in, 4) != WIRE_MAGIC) return "the magic number is not Shoal's";
  if (get(in + 4, 2) != WIRE_VERSION) return "another version of the protocol";
  if (get(in + 6, 2) != WIRE_HEADER) return "the header says another length";
  if (get(in + 60, 4) != checksum(in)) return "the header's checksum is wrong";
  if (get(in + 48, 8) > largest) return "the payload is larger than agreed";
  *header = (net_header){.kind = (uint16_t)get(in + 8, 2),
                         .flags = (uint16_t)get(in + 10, 2),
                         .from = (uint32_t)get(in + 12, 4),
                         .generation = get(in + 24, 8),
                         .step = get(in + 32, 8),
                         .number = get(in + 40, 8)};
  *job = get(in + 16, 8);
  *bytes = get(in + 48, 8);
  return NULL;
}
