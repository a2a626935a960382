/* Safetensors: what is written is read, what is damaged is refused. */
#include "files.h"

#include "data/safetensors.h"

#include <fcntl.h>

enum { TENSORS = 7 };

/* One tensor of each type and an empty one; in an order that needs arranging. */
typedef struct {
  uint8_t u8[3], flags[4];
  float f32[6];
  double f64[2];
  int32_t i32[1];
  int64_t i64[4];
  safetensors_item items[TENSORS];
} sample;

static void sample_init(sample *s) {
  *s = (sample){.u8 = {0, 7, 255},
                .flags = {1, 0, 0, 1},
                .f32 = {1.5f, -2, 3e38f, 1e-45f, 0, -0.0f},
                .f64 = {1e308, -1e-300},
                .i32 = {-2147483647},
                .i64 = {INT64_MIN, INT64_MAX, 0, -1}};
  s->items[0] = (safetensors_item){.name = "u8", .tensor = shoal_tensor_view(SHOAL_U8, SHOAL_SHAPE(3), s->u8)};
  s->items[1] = (safetensors_item){.name = "layer/weights:0 \"\xc3\xa4\"",
                                   .tensor = shoal_tensor_view(SHOAL_F32, SHOAL_SHAPE(2, 3), s->f32)};
  s->items[2] =
      (safetensors_item){.name = "flags", .tensor = shoal_tensor_view(SHOAL_BOOL, SHOAL_SHAPE(2, 2), s->flags)};
  s->items[3] = (safetensors_item){.name = "f64", .tensor = shoal_tensor_view(SHOAL_F64, SHOAL_SHAPE(2), s->f64)};
  s->items[4] = (safetensors_item){.name = "scalar", .tensor = shoal_tensor_view(SHOAL_I32, SHOAL_SCALAR, s->i32)};
  s->items[5] = (safetensors_item){.name = "i64", .tensor = shoal_tensor_view(SHOAL_I64, SHOAL_SHAPE(4, 1), s->i64)};
  s->items[6] = (safetensors_item){.name = "empty", .tensor = shoal_tensor_view(SHOAL_F32, SHOAL_SHAPE(0, 5), s->f32)};
}

static void write_sample(const char *path, const sample *s, const json_t *metadata) {
  int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
  assert_true(fd >= 0);
  assert_ok(safetensors_write(fd, path, s->items, TENSORS, metadata));
  assert_int_equal(close(fd), 0);
}

static void round_trip(void **state) {
  char dir[FILES_PATH], path[FILES_PATH + 32];
  files_make_folder(dir);
  snprintf(path, sizeof path, "%s/a.safetensors", dir);
  sample s;
  sample_init(&s);
  json_t *metadata = json_pack("{s:s, s:s}", "step", "12", "text", "line\n\"quoted\"");
  write_sample(path, &s, metadata);
  json_decref(metadata);

  safetensors *f;
  assert_ok(safetensors_open(path, &f));
  assert_int_equal(safetensors_count(f), TENSORS);
  assert_string_equal(json_string_value(json_object_get(safetensors_metadata(f), "text")), "line\n\"quoted\"");
  for (int i = 0; i < TENSORS; i++) {
    shoal_tensor *from = &s.items[i].tensor, t;
    const safetensors_entry *e = safetensors_find(f, s.items[i].name);
    assert_non_null(e);
    assert_true(e->supported);
    assert_int_equal(e->offset % shoal_dtype_size(e->dtype), 0); /* aligned when mapped */
    assert_ok(shoal_tensor_create(from->dtype, from->shape, &t));
    assert_ok(safetensors_read(f, s.items[i].name, &t));
    assert_memory_equal(t.data, from->data, shoal_tensor_bytes(from));
    shoal_tensor_fini(&t);
  }
  shoal_tensor wrong = shoal_tensor_view(SHOAL_F32, SHOAL_SHAPE(3, 2), s.f32);
  assert_fails(safetensors_read(f, s.items[1].name, &wrong), SHOAL_ERR_INPUT, "f32 [2,3], but f32 [3,2]");
  wrong = shoal_tensor_view(SHOAL_I32, SHOAL_SHAPE(2), s.f64);
  assert_fails(safetensors_read(f, "f64", &wrong), SHOAL_ERR_INPUT, "f64 [2], but i32 [2]");
  assert_fails(safetensors_read(f, "fl", &wrong), SHOAL_ERR_INPUT, "no tensor 'fl'");
  assert_fails(safetensors_read(f, "flagz", &wrong), SHOAL_ERR_INPUT, "did you mean 'flags'");
  safetensors_close(f);
  safetensors_close(NULL);
  files_remove_folder(dir);
}

static void writer_refuses(void **state) {
  char path[] = "/dev/null";
  sample s;
  sample_init(&s);
  int fd = open(path, O_WRONLY);
  s.items[3].name = "u8";
  assert_fails(safetensors_write(fd, path, s.items, TENSORS, NULL), SHOAL_ERR_ARGUMENT, "two tensors are called 'u8'");
  s.items[3].name = "__metadata__";
  assert_fails(safetensors_write(fd, path, s.items, TENSORS, NULL), SHOAL_ERR_ARGUMENT, "__metadata__");
  s.items[3].name = "\xff";
  assert_fails(safetensors_write(fd, path, s.items, TENSORS, NULL), SHOAL_ERR_ARGUMENT, "UTF-8");
  s.items[3].name = "f64";
  s.items[3].tensor.rows = (int32_t[]){1, 0};
  assert_fails(safetensors_write(fd, path, s.items, TENSORS, NULL), SHOAL_ERR_ARGUMENT, "picked rows");
  s.items[3].tensor.rows = NULL;
  json_t *metadata = json_pack("{s:i}", "step", 12);
  assert_fails(safetensors_write(fd, path, s.items, TENSORS, metadata), SHOAL_ERR_ARGUMENT, "'step' must be a string");
  json_decref(metadata);
  close(fd);
  fd = open("/dev/full", O_WRONLY);
  if (fd >= 0) {
    assert_fails(safetensors_write(fd, "full", s.items, TENSORS, NULL), SHOAL_ERR_SYSTEM, "No space left");
    close(fd);
  }
}

/* Cut anywhere, or longer: never opened. Any byte of the header spoilt: opened or refused, never worse. */
static void damaged(void **state) {
  char dir[FILES_PATH], path[FILES_PATH + 32];
  files_make_folder(dir);
  snprintf(path, sizeof path, "%s/a.safetensors", dir);
  sample s;
  sample_init(&s);
  write_sample(path, &s, NULL);
  size_t n;
  uint8_t *bytes = files_read(path, &n);
  safetensors *f;
  for (size_t cut = 0; cut < n; cut++)
    assert_fails(safetensors_open_memory(bytes, cut, "cut", &f), SHOAL_ERR_INPUT, "cut: byte ");
  files_write(path, bytes, n - 1);
  assert_fails(safetensors_open(path, &f), SHOAL_ERR_INPUT, "a.safetensors: byte ");
  bytes[n] = 0;
  assert_fails(safetensors_open_memory(bytes, n + 1, "long", &f), SHOAL_ERR_INPUT, "1 bytes more");
  int noticed = 0;
  for (size_t at = 0; at < n - 77; at++) {
    bytes[at] ^= 0x21;
    shoal_status status = safetensors_open_memory(bytes, n, "spoilt", &f);
    if (status) {
      assert_int_equal(shoal_status_code(status), SHOAL_ERR_INPUT);
      shoal_status_free(status);
      noticed++;
    } else {
      safetensors_close(f);
    }
    bytes[at] ^= 0x21;
  }
  assert_true(noticed > 200);
  free(bytes);
  files_remove_folder(dir);
}

static void odd_headers(void **state) {
#define ROW(name, type, shape, a, b) \
  "\"" name "\":{\"dtype\":\"" type "\",\"shape\":[" shape "],\"data_offsets\":[" #a "," #b "]}"
  static const struct {
    const char *header;
    size_t data;
    const char *words; /* NULL: it opens */
  } cases[] = {
      {"{}", 0, NULL},
      {"{}", 3, "3 bytes more"},
      {"{" ROW("a", "U8", "2,2", 0, 4) "}", 4, NULL},
      {"{" ROW("a", "F16", "2", 0, 4) "}", 4, NULL},
      {"{" ROW("a", "Q4", "2", 0, 4) "}", 4, "'Q4' is not supported"},
      {"{" ROW("a", "U8", "3", 0, 4) "}", 4, "takes 3 bytes"},
      {"{" ROW("a", "U8", "4", 0, 4) "," ROW("b", "U8", "2", 2, 4) "}", 4, "overlap"},
      {"{" ROW("a", "U8", "1", 0, 1) "," ROW("b", "U8", "2", 2, 4) "}", 4, "belong to no tensor"},
      {"{" ROW("a", "U8", "1", 1, 2) "}", 2, "belong to no tensor"},
      {"{" ROW("a", "U8", "4", 0, 4) "," ROW("a", "U8", "4", 0, 4) "}", 4, "duplicate"},
      {"{" ROW("a", "U8", "5", 0, 5) "}", 4, "cut short"},
      {"{" ROW("a", "U8", "4", 4, 0) "}", 4, "4 to 0"},
      {"{" ROW("a", "U8", "-4", 0, 4) "}", 4, "list of sizes"},
      {"{" ROW("a", "U8", "4.0", 0, 4) "}", 4, "list of sizes"},
      {"{" ROW("a", "U8", "4611686018427387904,4611686018427387904,16", 0, 0) "}", 0, "list of sizes"},
      {"{" ROW("a", "U8", "1,1,1,1,1,1,1", 0, 1) "}", 1, "7 dimensions"},
      {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1],\"more\":1}}", 1, "unknown field 'more'"},
      {"{\"a\":{\"shape\":[1],\"data_offsets\":[0,1]}}", 1, "\"dtype\""},
      {"{\"a\":7}", 0, "expected an object"},
      {"{\"__metadata__\":{\"a\":1}}", 0, "'a' must be a string"},
      {"{\"__metadata__\":[]}", 0, "object of strings"},
      {"[]", 0, "starts with '{'"},
      {"", 0, "starts with '{'"},
      {"{\"a\"", 0, "not valid JSON"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    uint8_t bytes[512] = {0};
    size_t length = strlen(cases[i].header);
    bytes[0] = (uint8_t)length;
    bytes[1] = (uint8_t)(length >> 8);
    memcpy(bytes + 8, cases[i].header, length);
    safetensors *f;
    if (cases[i].words) {
      assert_fails(safetensors_open_memory(bytes, 8 + length + cases[i].data, "odd", &f), SHOAL_ERR_INPUT,
                   cases[i].words);
    } else {
      assert_ok(safetensors_open_memory(bytes, 8 + length + cases[i].data, "odd", &f));
      safetensors_close(f);
    }
  }
  uint8_t big[16] = {0, 0, 0, 0, 0, 0, 0, 0x80, '{', '}'};
  safetensors *f;
  assert_fails(safetensors_open_memory(big, sizeof big, "big", &f), SHOAL_ERR_INPUT, "at most 100000000");
  assert_fails(safetensors_open("/nonexistent", &f), SHOAL_ERR_INPUT, "/nonexistent");
  assert_fails(safetensors_open("/", &f), SHOAL_ERR_INPUT, "regular file");
}

static void foreign_types_and_values(void **state) {
  uint8_t bytes[512] = {0};
  const char *header = "{" ROW("h", "BF16", "2", 0, 4) "," ROW("b", "BOOL", "2", 4, 6) "}";
  size_t length = strlen(header);
  bytes[0] = (uint8_t)length;
  memcpy(bytes + 8, header, length);
  bytes[8 + length + 5] = 2;
  safetensors *f;
  assert_ok(safetensors_open_memory(bytes, 8 + length + 6, "x", &f));
  uint8_t memory[8];
  shoal_tensor t = shoal_tensor_view(SHOAL_F32, SHOAL_SHAPE(2), memory);
  assert_fails(safetensors_read(f, "h", &t), SHOAL_ERR_INPUT, "type BF16, which is not supported");
  t = shoal_tensor_view(SHOAL_BOOL, SHOAL_SHAPE(2), memory);
  assert_fails(safetensors_read(f, "b", &t), SHOAL_ERR_INPUT, "holds 2");
  safetensors_close(f);
}

static void files_of_others(void **state) {
  char dir[FILES_PATH], path[FILES_PATH + 64];
  snprintf(dir, sizeof dir, "%s/../shared/data/safetensors", files_root());
  if (access(dir, R_OK)) {
    print_message("skipped: %s is not there\n", dir);
    skip();
  }
  safetensors *f;
  snprintf(path, sizeof path, "%s/mnist_tinygrad.safetensors", dir);
  assert_ok(safetensors_open(path, &f));
  assert_int_equal(safetensors_count(f), 2);
  shoal_tensor t;
  assert_ok(shoal_tensor_create(SHOAL_F32, SHOAL_SHAPE(10, 128), &t));
  assert_ok(safetensors_read(f, "l2.weight", &t));
  double sum = 0;
  for (int i = 0; i < 1280; i++) sum += shoal_tensor_get(&t, i) * shoal_tensor_get(&t, i);
  assert_true(sum > 0.1 && sum < 1e4);
  shoal_tensor_fini(&t);
  safetensors_close(f);
  snprintf(path, sizeof path, "%s/candle_jfk-codes.safetensors", dir);
  assert_ok(safetensors_open(path, &f));
  assert_ok(shoal_tensor_create(SHOAL_I64, SHOAL_SHAPE(1, 2, 828), &t));
  assert_ok(safetensors_read(f, "codes", &t));
  for (int i = 0; i < 1656; i++) assert_true(shoal_tensor_get(&t, i) >= 0 && shoal_tensor_get(&t, i) < 1e6);
  shoal_tensor_fini(&t);
  safetensors_close(f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(round_trip),  cmocka_unit_test(writer_refuses),           cmocka_unit_test(damaged),
      cmocka_unit_test(odd_headers), cmocka_unit_test(foreign_types_and_values), cmocka_unit_test(files_of_others),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
