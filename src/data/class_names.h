/* What the classes of a data set are called: class i has the i-th name.
 *
 * A job has one such dictionary. It is made from all training files (in the order of the names, or as --columns
 * classes= says), kept with the model, and used for every other file: so a word has the same number everywhere.
 *
 * Outside this module names travel as `const char *const *`, ended by NULL, in one block that free() releases. */
#ifndef SHOAL_DATA_CLASS_NAMES_H
#define SHOAL_DATA_CLASS_NAMES_H

#include "base/status.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
  char **names;     /* [count], owned, in the order of their numbers, ended by NULL; NULL while there are none */
  int32_t *by_name; /* [count] numbers in the order of the names, for finding */
  int count;
  size_t names_capacity, by_name_capacity;
  bool ordered; /* the numbers were given, not found: class_names_sort leaves them */
} class_names;

#define CLASS_NAMES_MAX (1 << 16)

void class_names_fini(class_names *c);
/* The number of a class; -1: there is none of that name. */
int class_names_find(const class_names *c, const char *name);
/* Gives it the next number unless it is there. INPUT error when there are too many. */
SHOAL_CHECKED shoal_status class_names_add(class_names *c, const char *name);
/* Adds all of a list ended by NULL (NULL: none); ARGUMENT error for one that is there already. */
SHOAL_CHECKED shoal_status class_names_add_all(class_names *c, const char *const *names);
/* Numbers them in the order of their bytes, unless the order was given. */
void class_names_sort(class_names *c);
/* For messages: "cat, dog, emu", shortened when there are many. Returns `out`. */
#define CLASS_NAMES_TEXT 512
const char *class_names_describe(const char *const *names, char out[CLASS_NAMES_TEXT]);

/* A copy in one block; *out NULL without names. */
SHOAL_CHECKED shoal_status class_names_copy(const char *const *names, const char *const **out);
int class_names_count(const char *const *names);
/* Equal names have equal numbers; others most likely not. */
uint64_t class_names_hash(const char *const *names);
bool class_names_equal(const char *const *a, const char *const *b);

/* An array of strings; JSON's null without names. NULL: no memory. */
json_t *class_names_to_json(const char *const *names);
/* `array`: as above, or NULL. INPUT error when it is something else. */
SHOAL_CHECKED shoal_status class_names_from_json(const json_t *array, const char *const **out);

#endif
