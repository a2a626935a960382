/* shoal data list, and what the other data commands share. */
#include "cli/data.h"

#include "cli/say.h"

const char *const *data_bad_row_names(void) {
  static const char *const names[] = {"stop", "skip", NULL};
  return names;
}

const char *const *data_split_names(void) {
  static const char *const names[] = {"train", "test", NULL};
  return names;
}

shoal_status data_read_options(const read_flags *f, const char *data, shoal_pipeline_options *out) {
  char *files;
  TRY(shoal_dataset_files(data, f->split ? f->split : "train", &files));
  *out = (shoal_pipeline_options){.files = files,
                                  .format = f->format,
                                  .features = f->features,
                                  .classes = (int)f->classes,
                                  .columns = f->columns,
                                  .fields = f->fields,
                                  .no_checksums = f->no_checksums,
                                  .threads = (int)f->threads,
                                  .transform = f->transform,
                                  .skip_bad_rows = f->on_bad_row && !strcmp(f->on_bad_row, "skip")};
  return NULL;
}

typedef struct {
  bool json;
} list_flags;

static const flag_row list_table[] = {
    {"json", FLAG_BOOL, offsetof(list_flags, json), NULL, "print one JSON object", .marks = 0},
    {0},
};

/* Where a known data set lies; NULL: it is not here. The caller frees it. */
static char *where(const char *name) {
  char *path = NULL;
  shoal_status_free(shoal_dataset_find(name, &path));
  return path;
}

static shoal_status list_json(void) {
  json_t *sets = json_array(), *formats = json_array();
  const char *const *names = shoal_dataset_names();
  for (size_t i = 0; names[i]; i++) {
    char *path = where(names[i]);
    json_array_append_new(sets,
                          json_pack("{s:s, s:o}", "name", names[i], "path", path ? json_string(path) : json_null()));
    free(path);
  }
  shoal_data_format f;
  for (int i = 0; shoal_data_format_at(i, &f); i++)
    json_array_append_new(formats, json_pack("{s:s, s:s}", "name", f.name, "summary", f.summary));
  json_t *o = json_pack("{s:o, s:o}", "data_sets", sets, "formats", formats);
  if (!o) return status_no_memory();
  json_dumpf(o, stdout, JSON_INDENT(2));
  putchar('\n');
  json_decref(o);
  return NULL;
}

static void list_text(void) {
  puts("Data sets known by name:");
  const char *const *names = shoal_dataset_names();
  for (size_t i = 0; names[i]; i++) {
    char *path = where(names[i]);
    say_named(stdout, names[i], path ? path : "not found here; set SHOAL_DATA or give a path");
    free(path);
  }
  puts("\nFormats read (detected from the content, or named with --format):");
  shoal_data_format f;
  for (int i = 0; shoal_data_format_at(i, &f); i++) say_named(stdout, f.name, f.summary);
  printf("\nFormats written by '%s data convert':\n", called());
  for (int i = 0; shoal_data_format_written_at(i, &f); i++) say_named(stdout, f.name, f.summary);
}

static shoal_status list(command_call *call) {
  if (((const list_flags *)call->flags)->json) return list_json();
  list_text();
  return NULL;
}

const command command_data_list = {
    .name = "data list",
    .summary = "list the data sets known by name and the formats",
    .flags = list_table,
    .fields = sizeof(list_flags),
    .action = list,
};
