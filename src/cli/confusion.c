#include "cli/confusion.h"

#include "cli/util.h"

#include "cli/say.h"
#include "cli/table.h"

#include <math.h>
#include <stdlib.h>

shoal_status confusion_print(const shoal_confusion *c, const char *const *names, FILE *to) {
  const int columns = c->classes + 2; /* the class, what it was taken for, the share that was right */
  table_column *cells = calloc((size_t)c->classes * (size_t)columns, sizeof *cells);
  char(*numbers)[SHOAL_CLASS_NAME_TEXT] = calloc((size_t)c->classes, sizeof *numbers);
  for (int i = 0; cells && numbers && i < c->classes; i++) {
    table_column *row = cells + (size_t)i * (size_t)columns;
    const int64_t *counts = c->counts + (int64_t)i * c->classes;
    int64_t all = 0;
    row[0] = (table_column){.head = "class", .left = true};
    table_set_text(&row[0], shoal_class_name(names, i, numbers[i]));
    for (int k = 0; k < c->classes; k++) {
      row[k + 1].head = shoal_class_name(names, k, numbers[k]);
      table_set_int(&row[k + 1], counts[k]);
      all += counts[k];
    }
    row[columns - 1].head = "right";
    table_set_share(&row[columns - 1], all ? (double)counts[i] / (double)all : NAN);
  }
  const bool good = cells && numbers;
  if (good) {
    say(to, "\nConfusion matrix (rows: actual class, columns: predicted class):\n\n");
    table_print(to, cells, c->classes, columns, terminal_width(to));
  }
  free(cells);
  free(numbers);
  return good ? NULL : status_no_memory();
}
