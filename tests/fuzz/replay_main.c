/* Runs a fuzz target over the files (or the files of the folders) given, where no fuzzer is at hand. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

/* 0 on success. The block is exactly as large as the file, so that a sanitizer sees a read past its end. */
static int replay_file(const char *path) {
  FILE *file = fopen(path, "rb");
  if (!file || fseek(file, 0, SEEK_END)) {
    perror(path);
    if (file) fclose(file);
    return 1;
  }
  long size = ftell(file);
  rewind(file);
  uint8_t *bytes = malloc(size > 0 ? (size_t)size : 1);
  int failed = size < 0 || !bytes || fread(bytes, 1, (size_t)size, file) != (size_t)size;
  fclose(file);
  if (failed)
    fprintf(stderr, "%s: cannot read\n", path);
  else
    LLVMFuzzerTestOneInput(bytes, (size_t)size);
  free(bytes);
  return failed;
}

static int replay(const char *path, int *files) {
  DIR *folder = opendir(path);
  if (!folder) {
    ++*files;
    return replay_file(path);
  }
  int failed = 0;
  for (struct dirent *e; (e = readdir(folder));) {
    char inner[4096];
    if (e->d_name[0] == '.') continue;
    snprintf(inner, sizeof inner, "%s/%s", path, e->d_name);
    failed |= replay(inner, files);
  }
  closedir(folder);
  return failed;
}

int main(int argc, char **argv) {
  int failed = 0, files = 0;
  for (int i = 1; i < argc; i++) failed |= replay(argv[i], &files);
  printf("%d inputs\n", files);
  return failed || !files;
}
