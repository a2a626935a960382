/* Words as whole numbers, one a word: by their place in a vocabulary, or by a hash. The numbers are those of Keras' layers
 * StringLookup and Hashing, so that models that were made with them take the same words.
 *
 * A vocabulary: [mask_token,] then num_oov_indices numbers for words that are not in it, then the words in their order.
 * A hash: FarmHash's 64-bit fingerprint modulo num_bins or, with a salt, SipHash-2-4 under that key; with a mask_value that
 * word is 0 and all others are 1 to num_bins - 1. */
#ifndef SHOAL_DATA_TEXT_IDS_H
#define SHOAL_DATA_TEXT_IDS_H

#include "data/class_names.h"

typedef struct {
  class_names words; /* of a vocabulary */
  int64_t unknown;   /* num_oov_indices; 0: words that are not in it are errors */
  int64_t bins;      /* of a hash; 0: it is a vocabulary */
  char *mask;        /* the word that is 0; NULL: none. Owned */
  bool salted;
  uint64_t salt[2];
} text_ids;

#define TEXT_IDS_MAX (1 << 24) /* numbers are floats on their way to a model */

void text_ids_fini(text_ids *t);
/* The number of a word; -1: it is not in the vocabulary, and there is none for such words. */
int64_t text_ids_of(const text_ids *t, const char *word);
/* How many numbers there are: they are below it. */
int64_t text_ids_count(const text_ids *t);

/* {"vocabulary": [...], "num_oov_indices": 1, "mask_token": null}, or {"num_bins": 100, "salt": [1, 2], "mask_value": null};
 * other keys are ignored. INPUT error that says what was expected. */
SHOAL_CHECKED shoal_status text_ids_from_json(const json_t *o, text_ids *out);
/* Adds the same keys. False: no memory. */
bool text_ids_to_json(const text_ids *t, json_t *o);

/* Exposed for tests. */
uint64_t text_fingerprint(const void *bytes, size_t n);
uint64_t text_siphash(const uint64_t key[2], const void *bytes, size_t n);

#endif
