/* Interactions of the hidden model of generated click logs: what words of several fields say together and none of them
 * says alone. All of them have a mean of zero whatever the words of the other fields are, so a model that adds up
 * features learns nothing of them, and one of pairs nothing of the triples. */
#ifndef SHOAL_DATA_INTERACTIONS_H
#define SHOAL_DATA_INTERACTIONS_H

#include <stdint.h>

enum {
  PAIR_FIELDS = 6,
  PAIR_RANK = 3, /* numbers of a word's vector; a pair counts by the product of its two vectors */
  PAIR_WORDS = 128,
  TRIPLE_FIELDS = 3,
  TRIPLE_WORDS = 10
};

typedef struct {
  double vectors[PAIR_FIELDS][PAIR_WORDS][PAIR_RANK];
  double triples[TRIPLE_WORDS][TRIPLE_WORDS][TRIPLE_WORDS];
} interactions;

/* sizes: words of each of the log's fields, of which the n-th is drawn as often as log2(1 + 1/n) says. */
void interactions_init(interactions *t, uint64_t seed, const int64_t *sizes);
/* What the words of a row, by field and from 0 on, -1: there is none, add to its logit. */
double interactions_of_pairs(const interactions *t, const int32_t *words);
double interactions_of_triples(const interactions *t, const int32_t *words);

#endif
