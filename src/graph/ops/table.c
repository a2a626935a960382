/* The operator table: the rows of all files that ops.h lists. */
#include "base/mem.h"
#include "base/text.h"
#include "graph/ops/ops.h"

#include <string.h>

#define ROWS_OF(name) ops_##name,
static const op_row *const files[] = {OPS_FILES(ROWS_OF)};
#undef ROWS_OF

const op_row *op_at(size_t i) {
  for (size_t f = 0; f < COUNT_OF(files); f++)
    for (const op_row *row = files[f]; row->name; row++)
      if (i-- == 0) return row;
  return NULL;
}

const op_row *op_find(const char *name) {
  for (size_t f = 0; f < COUNT_OF(files); f++)
    for (const op_row *row = files[f]; row->name; row++)
      if (!strcmp(row->name, name)) return row;
  return NULL;
}

const char *op_nearest(const char *name) {
  const char *names[256];
  size_t n = 0;
  for (size_t f = 0; f < COUNT_OF(files); f++)
    for (const op_row *row = files[f]; row->name && n < COUNT_OF(names); row++)
      if (!(row->flags & (OP_INTERNAL | OP_GRADIENT_ONLY))) names[n++] = row->name;
  return text_nearest(name, names, n);
}
