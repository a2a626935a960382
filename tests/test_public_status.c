/* Errors and words as a program around the library makes them. */
#include "public.h"

#include <errno.h>

static shoal_status make_with(shoal_code code, const char *format, ...) {
  va_list args;
  va_start(args, format);
  shoal_status status = shoal_status_make_v(code, format, args);
  va_end(args);
  return status;
}

/* Fails with `status` on its way through two functions. */
static shoal_status pass_on(shoal_status status, int *reached) {
  SHOAL_TRY(shoal_status_wrap(status, "row %d", 3));
  ++*reached;
  return NULL;
}

static void test_errors_gain_context(void **state) {
  int reached = 0;
  shoal_status status = pass_on(shoal_status_make(SHOAL_ERR_INPUT, "'%s' is no number", "x"), &reached);
  status = shoal_status_wrap(status, "%s", "a.csv");
  assert_int_equal(shoal_status_code(status), SHOAL_ERR_INPUT);
  assert_string_equal(shoal_status_message(status), "a.csv: row 3: 'x' is no number");
  assert_int_equal(reached, 0);
  shoal_status_free(status);
  assert_null(pass_on(NULL, &reached));
  assert_int_equal(reached, 1);
}

static void test_errors_of_the_system(void **state) {
  shoal_status status = shoal_status_from_errno(ENOENT, "open %s", "a.csv");
  assert_int_equal(shoal_status_code(status), SHOAL_ERR_SYSTEM);
  assert_string_equal(shoal_status_message(status), "open a.csv: No such file or directory");
  shoal_status_free(status);
  status = shoal_status_wrap(shoal_status_no_memory(), "loading");
  assert_int_equal(shoal_status_code(status), SHOAL_ERR_SYSTEM);
  assert_string_equal(shoal_status_message(status), "out of memory");
  shoal_status_free(status);
  status = make_with(SHOAL_ERR_ARGUMENT, "%d of %s", 2, "them");
  assert_string_equal(shoal_status_message(status), "2 of them");
  shoal_status_free(status);
}

static shoal_status clean_up(shoal_status first, int *cleaned) {
  shoal_status status;
  SHOAL_TRY_GOTO(status, first, done);
  SHOAL_TRY_GOTO(status, shoal_status_make(SHOAL_ERR_PEER, "second"), done);
done:
  ++*cleaned;
  return status;
}

static void test_jumps_to_the_clean_up(void **state) {
  int cleaned = 0;
  shoal_status status = clean_up(NULL, &cleaned);
  assert_int_equal(shoal_status_code(status), SHOAL_ERR_PEER);
  shoal_status_free(status);
  status = clean_up(shoal_status_make(SHOAL_ERR_INPUT, "first"), &cleaned);
  assert_int_equal(shoal_status_code(status), SHOAL_ERR_INPUT);
  shoal_status_free(status);
  assert_int_equal(cleaned, 2);
}

static void test_nearest_name(void **state) {
  static const char *const names[] = {"batch-size", "epochs", "lr"};
  assert_string_equal(shoal_nearest_name("bathc-size", names, 3), "batch-size");
  assert_string_equal(shoal_nearest_name("epoch", names, 3), "epochs");
  assert_null(shoal_nearest_name("quiet", names, 3));
}

static void test_numbers_are_read_strictly(void **state) {
  int64_t i = 7;
  double d = 7;
  assert_true(shoal_parse_int("-12", &i));
  assert_int_equal(i, -12);
  assert_true(shoal_parse_double("1e-3", &d));
  assert_true(d == 1e-3);
  static const char *const bad[] = {"", "12x", "1 ", "99999999999999999999", "--1"};
  for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) assert_false(shoal_parse_int(bad[k], &i));
  assert_false(shoal_parse_double("1.5.2", &d));
  assert_int_equal(i, -12); /* set only on success */
}

static void test_digits_are_grouped(void **state) {
  char text[SHOAL_DIGITS_TEXT];
  assert_string_equal(shoal_group_digits(0, text), "0");
  assert_string_equal(shoal_group_digits(1234567, text), "1,234,567");
  assert_string_equal(shoal_group_digits(-1000, text), "-1,000");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_errors_gain_context),       cmocka_unit_test(test_errors_of_the_system),
      cmocka_unit_test(test_jumps_to_the_clean_up),     cmocka_unit_test(test_nearest_name),
      cmocka_unit_test(test_numbers_are_read_strictly), cmocka_unit_test(test_digits_are_grouped),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
