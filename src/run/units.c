#include "run/units.h"

#include <stdlib.h>
#include <strings.h>

typedef struct {
  const char *name;
  double factor;
} unit;

static bool parse(const char *words, const unit *units, double *out) {
  char *end;
  *out = strtod(words, &end);
  if (end == words || !(*out > 0) || *out > 1e12) return false;
  for (; units->name; units++)
    if (!strcasecmp(end, units->name)) {
      *out *= units->factor;
      return true;
    }
  return false;
}

bool units_rate(const char *words, double *out) {
  static const unit units[] = {{"bit", 1}, {"kbit", 1e3}, {"mbit", 1e6}, {"gbit", 1e9}, {0}};
  return parse(words, units, out);
}

bool units_time(const char *words, double *out) {
  static const unit units[] = {{"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1}, {0}};
  return parse(words, units, out);
}
