/* A pipeline's position as text: words of the form name=number, so that people can read a checkpoint's. */
#include "base/mem.h"
#include "base/text.h"
#include "data/pipeline.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

typedef struct {
  pipeline_position position;
  pipeline_place place;
} both;

static const struct {
  const char *name;
  size_t offset;
} fields[] = {
    {"epoch", offsetof(both, position.source.epoch)},
    {"file", offsetof(both, position.source.file)},
    {"record", offsetof(both, position.source.at.record)},
    {"offset", offsetof(both, position.source.at.offset)},
    {"base", offsetof(both, position.source.base)},
    {"seen", offsetof(both, position.source.seen)},
    {"bad", offsetof(both, position.source.bad)},
    {"window", offsetof(both, position.window)},
    {"done", offsetof(both, position.done)},
    {"rows", offsetof(both, position.rows)},
    {"previous", offsetof(both, position.previous)},
    {"spoilt", offsetof(both, position.rejected_by_transform)},
    {"files", offsetof(both, place.files)},
    {"shard", offsetof(both, place.shard)},
    {"shards", offsetof(both, place.shards)},
    {"seed", offsetof(both, place.seed)},
    {"shuffle", offsetof(both, place.shuffle_rows)},
    {"memory", offsetof(both, place.memory_limit)},
};
/* A name, '=', a number of at most 20 characters and a blank each. */
_Static_assert(COUNT_OF(fields) * (8 + 1 + 20 + 1) < SHOAL_POSITION_TEXT, "the text has no room for the fields");

void position_write(const pipeline_position *position, const pipeline_place *place, char out[SHOAL_POSITION_TEXT]) {
  both b = {*position, *place};
  size_t n = 0;
  for (size_t i = 0; i < COUNT_OF(fields); i++) {
    int64_t value;
    memcpy(&value, (const char *)&b + fields[i].offset, sizeof value);
    n += (size_t)snprintf(out + n, SHOAL_POSITION_TEXT - n, "%s%s=%" PRId64, i ? " " : "", fields[i].name, value);
  }
}

/* The number after "name=" in the words; false: none. */
static bool find(const char *words, const char *name, int64_t *out) {
  size_t length = strlen(name);
  for (const char *w = words; *w; w += strcspn(w, " "), w += strspn(w, " ")) {
    if (strncmp(w, name, length) || w[length] != '=') continue;
    char number[32];
    snprintf(number, sizeof number, "%.*s", (int)strcspn(w + length + 1, " "), w + length + 1);
    return text_to_int(number, out);
  }
  return false;
}

static shoal_status compare(const char *name, int64_t then, int64_t now) {
  if (then == now) return NULL;
  return status_make(SHOAL_ERR_ARGUMENT,
                     "position: %s was %lld then and is %lld now, so the rows come in another "
                     "order: resume with the same files and settings",
                     name, (long long)then, (long long)now);
}

shoal_status position_read(const char *words, const pipeline_place *place, pipeline_position *out) {
  both b;
  for (size_t i = 0; i < COUNT_OF(fields); i++) {
    int64_t value;
    if (!find(words, fields[i].name, &value))
      return status_make(SHOAL_ERR_INPUT, "position: '%s' is missing or no number in '%.200s'", fields[i].name, words);
    memcpy((char *)&b + fields[i].offset, &value, sizeof value);
  }
  const pipeline_place *then = &b.place;
  TRY(compare("the number of files", then->files, place->files));
  TRY(compare("the shard", then->shard, place->shard));
  TRY(compare("the number of shards", then->shards, place->shards));
  TRY(compare("the seed", then->seed, place->seed));
  TRY(compare("the number of rows shuffled", then->shuffle_rows, place->shuffle_rows));
  if (place->shuffle_rows) TRY(compare("the limit of memory", then->memory_limit, place->memory_limit));
  const pipeline_position *p = &b.position;
  if (p->window < 0 || p->done < 0 || p->rows < 0 || p->previous < 0 || p->rejected_by_transform < 0 ||
      p->source.seen < 0 || p->source.bad < 0)
    return status_make(SHOAL_ERR_INPUT, "position: a number is negative in '%.200s'", words);
  *out = *p;
  return NULL;
}
