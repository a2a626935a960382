/* The header of a message as it travels: 64 bytes, little endian, whatever the host.
 *
 *   0 magic u32   4 version u16   6 header bytes u16   8 kind u16   10 flags u16   12 from u32   16 job u64
 *  24 generation u64   32 step u64   40 number u64   48 payload bytes u64   56 crc32c of the payload u32
 *  60 crc32c of bytes 0..59
 *
 * The payload's checksum is 0 where something else vouches for the bytes: TLS for every record of an encrypted connection, and
 * a trailer for messages that go through shared memory in pieces (shm_link.h). */
#ifndef SHOAL_NET_WIRE_H
#define SHOAL_NET_WIRE_H

#include "net/transport.h"

enum { WIRE_HEADER = 64, WIRE_VERSION = 2, WIRE_OWN_MAX = 4096 /* payload bytes of the transports' own messages */ };
#define WIRE_MAGIC 0x4c414853u /* "SHAL" */

/* Kinds from NET_GONE on are between the transports themselves; none of them reaches the application from outside. */
enum { WIRE_HELLO = NET_GONE + 1, WIRE_WELCOME, WIRE_REFUSED };

/* Without the payload's checksum, which is that of an empty one until wire_seal sets it. */
void wire_encode(const net_header *header, uint64_t job, uint64_t bytes, uint8_t out[WIRE_HEADER]);
void wire_seal(uint8_t header[WIRE_HEADER], uint32_t checksum);
uint32_t wire_checksum_of(const net_part *parts, int n);
/* What an encoded header says of the payload. */
uint32_t wire_checksum(const uint8_t header[WIRE_HEADER]);

/* NULL when all checks hold: n is WIRE_HEADER, magic, version, lengths, checksum, and a payload of at most `largest`
 * bytes; otherwise what does not (static text; nothing is written then). The caller compares the job. */
SHOAL_CHECKED const char *wire_decode(const uint8_t *in, size_t n, uint64_t largest, net_header *header, uint64_t *job,
                                      uint64_t *bytes);
/* The version of the protocol if these are Shoal's words of another one; otherwise 0. Magic and version stand at the
 * same place in all versions. */
uint16_t wire_other_version(const uint8_t *in, size_t n);
/* What to say then. */
void wire_name_versions(uint16_t other, char *words, size_t room);

#endif
