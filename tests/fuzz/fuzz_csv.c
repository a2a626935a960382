/* The first byte chooses a description of the columns and the separator, the rest is the file. */
#include "dense_target.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
  static const char *const columns[] = {NULL,
                                        "label=0",
                                        "target=1,missing=0",
                                        "label=y,skip=0",
                                        "classes=a|b,missing=-1",
                                        "header=no,missing=mean",
                                        "header=yes,label=1,categories=0",
                                        "skip=0,hash=1:3,separator=;"};
  static const char fields[] =
      "label=0,header=no,field=1,field=2:standardise,field=2:buckets:1|5,field=1:split:;,field=1*2,field=2:log";
  if (!n) return 0;
  format_options options = {.columns = bytes[0] & 32 ? fields : columns[bytes[0] & 7],
                            .classes = bytes[0] & 16 ? 3 : 0};
  dense_target(bytes[0] & 8 ? "tsv" : "csv", bytes + 1, n - 1, &options);
  return 0;
}
