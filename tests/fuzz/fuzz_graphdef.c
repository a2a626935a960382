/* Any bytes at all, as a GraphDef: refused as bad input, or a graph that is written and read again as the same bytes.
 */
#include "graph/graphdef.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

/* NULL: refused. */
static shoal_graph *read_graph(const uint8_t *bytes, size_t n) {
  shoal_graph *g;
  if (shoal_graph_create(&g)) __builtin_trap();
  shoal_status status = graphdef_read(g, bytes, n);
  if (!status) return g;
  /* Data may be as large as the file, but no larger. */
  if (shoal_status_code(status) != SHOAL_ERR_INPUT) __builtin_trap();
  shoal_status_free(status);
  shoal_graph_destroy(g);
  return NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
  shoal_graph *first = read_graph(bytes, n);
  if (!first) return 0;
  proto once = {0}, twice = {0};
  if (graphdef_write(first, 0, &once)) __builtin_trap();
  shoal_graph *again = read_graph(once.bytes, once.length);
  if (!again || graphdef_write(again, 0, &twice)) __builtin_trap();
  if (once.length != twice.length || (once.length && memcmp(once.bytes, twice.bytes, once.length))) __builtin_trap();
  proto_fini(&once);
  proto_fini(&twice);
  shoal_graph_destroy(first);
  shoal_graph_destroy(again);
  return 0;
}
