/* Keys of tasks that talk across hosts (X25519): NAME.key holds the secret, NAME.pub what others may know. Both are
 * text: one line of 40 characters (Z85), which may go on " expires 2027-01-31T12:00:00Z". */
#ifndef SHOAL_NET_KEYS_H
#define SHOAL_NET_KEYS_H

#include "base/status.h"
#include "shoal/keys.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
  KEYS_BYTES = 32, /* a key as numbers */
  KEYS_CHARS = 40, /* a key as characters of Z85 */
  KEYS_TEXT = 72   /* with its end and the NUL */
};

typedef struct {
  char public_key[KEYS_TEXT], secret_key[KEYS_TEXT];
} keys_pair;

/* Clients' public keys, ended by NULL, as net_options.allowed wants them. */
typedef struct {
  char **keys;
  size_t count;
} keys_list;

/* expires: seconds since 1970; 0: never. */
SHOAL_CHECKED shoal_status keys_make(int64_t expires, keys_pair *out);
/* Writes DIR/NAME.key (mode 0600) and DIR/NAME.pub, making DIR if it is not there; overwrites neither. */
SHOAL_CHECKED shoal_status keys_write(const char *dir, const char *name, const keys_pair *pair);
/* FILE.key; the public key is computed from the secret one. Refuses a file that others may read. */
SHOAL_CHECKED shoal_status keys_read_pair(const char *path, keys_pair *out);
SHOAL_CHECKED shoal_status keys_read_public(const char *path, char out[KEYS_TEXT]);
/* All *.pub files of a folder, in order of their names. */
SHOAL_CHECKED shoal_status keys_read_folder(const char *dir, keys_list *out);
void keys_list_fini(keys_list *l);
/* A line as above; NULL is none. */
bool keys_valid(const char *key);
/* Of a valid one: its numbers; when it ends, 0: never; whether it has. */
void keys_decode(const char *key, uint8_t out[KEYS_BYTES]);
int64_t keys_expiry(const char *key);
bool keys_expired(const char *key);

#endif
