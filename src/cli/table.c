#include "cli/table.h"

#include "cli/say.h"

#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

int known_width(FILE *to) {
  struct winsize size;
  struct stat st;
  int64_t columns;
  const char *said = getenv("COLUMNS");
  if (!ioctl(fileno(to), TIOCGWINSZ, &size) && size.ws_col > 0) return size.ws_col;
  if (!said || !shoal_parse_int(said, &columns) || columns < 1 || columns > 10000) return 0;
  return fstat(fileno(to), &st) || S_ISREG(st.st_mode) ? 0 : (int)columns; /* a log is not for one terminal */
}

int terminal_width(FILE *to) {
  int width = known_width(to);
  return width ? width : 160;
}

shoal_status table_print(FILE *to, shoal_status status, shoal_result_table *t, const char *all) {
  TRY(status);
  text lines = {0};
  char *left_out = NULL;
  status = shoal_result_table_text(t, terminal_width(to), &lines, &left_out);
  if (!status && lines.data) fputs(lines.data, to);
  if (left_out) say(to, "\nNot shown because the terminal is too narrow: %s. %s has all.\n", left_out, all);
  free(left_out);
  text_fini(&lines);
  shoal_result_table_destroy(t);
  return status;
}

shoal_status table_print_json(shoal_status status, shoal_result_table *t) {
  char *json = NULL;
  TRY(status);
  status = shoal_result_table_json(t, &json);
  shoal_result_table_destroy(t);
  return json_print(status, json);
}

shoal_status json_print(shoal_status status, char *json) {
  TRY(status);
  fputs(json, stdout);
  free(json);
  return NULL;
}
