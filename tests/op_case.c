#include "op_case.h"

#include "base/random.h"
#include "base/text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void malformed(const op_row *row, const char *line, const char *word) {
  fail_msg("%s: case \"%s\": '%s' is malformed", row->name, line, word);
}

static int64_t number(const op_row *row, const char *line, const char *word) {
  int64_t value = 0;
  if (!text_to_int(word, &value)) malformed(row, line, word);
  return value;
}

/* "3,4" */
static shoal_shape list_of(const op_row *row, const char *line, char *word) {
  shoal_shape list = {0};
  char *rest = NULL;
  for (char *item = strtok_r(word, ",", &rest); item; item = strtok_r(NULL, ",", &rest)) {
    if (list.rank == SHOAL_MAX_RANK) malformed(row, line, item);
    list.dim[list.rank++] = number(row, line, item);
  }
  return list;
}

/* The input is what another operator makes of an input of its own, and so are its type and shape. */
static void parse_own(case_input *in, const char *line) {
  op_case own;
  case_shapes shapes;
  case_parse(in->of, line, &own);
  case_infer(&own, SHOAL_F32, false, &shapes);
  in->of_own = strdup(line);
  in->real = false;
  in->dtype = shapes.out_dtype[0];
  in->shape = shapes.out[0];
  in->batched = own.in[0].batched;
  case_fini(&own);
}

static void parse_input(const op_row *row, const char *line, char *word, case_input *in) {
  *in = (case_input){.real = true};
  char *open = strchr(word, '['), *close = strchr(word, ']'); /* the first of both: the input's own */
  if (!open || !close) {
    malformed(row, line, word);
    return;
  }
  *open = *close = 0;
  if (*word) {
    in->real = false;
    if (!strcmp(word, "asc") || !strcmp(word, "uniq"))
      in->dtype = SHOAL_I64;
    else if (!shoal_dtype_parse(word, &in->dtype))
      malformed(row, line, word);
  }
  char *dims = open + 1;
  if (*dims == '?') {
    in->batched = true;
    dims++;
  }
  in->shape = list_of(row, line, dims);
  char *range = close + 1;
  if (*range == '>')
    in->values = VALUES_POSITIVE;
  else if (*range == '<') {
    in->values = !strcmp(word, "asc") ? VALUES_ASCENDING : !strcmp(word, "uniq") ? VALUES_DISTINCT : VALUES_BELOW;
    in->bound = number(row, line, range + 1);
  } else if (*range == '~') {
    in->values = VALUES_WIDE;
    in->bound = number(row, line, range + 1);
  } else if (*range == '=') {
    char *colon = strchr(range, ':');
    if (!colon) malformed(row, line, range);
    *colon = 0;
    in->values = VALUES_OF;
    in->of = op_find(range + 1);
    in->of_input = -1;
    if (!in->of)
      malformed(row, line, range);
    else if (strchr(colon + 1, '['))
      parse_own(in, colon + 1);
    else
      in->of_input = (int)number(row, line, colon + 1);
  } else if (*range)
    malformed(row, line, range);
}

static void parse_attr(const op_row *row, const char *line, char *word, attr_value *attr) {
  char *equals = strchr(word, '=');
  *equals = 0;
  for (int i = 0; i < OP_MAX_ATTRS && row->attrs[i].name; i++) {
    if (strcmp(row->attrs[i].name, word)) continue;
    switch (row->attrs[i].kind) {
      case ATTR_INT:
      case ATTR_BOOL: attr[i].i = number(row, line, equals + 1); return;
      case ATTR_FLOAT:
        if (!text_to_double(equals + 1, &attr[i].f)) malformed(row, line, equals + 1);
        return;
      case ATTR_LIST: attr[i].list = list_of(row, line, equals + 1); return;
      case ATTR_DTYPE: {
        shoal_dtype dtype = SHOAL_F32;
        if (!shoal_dtype_parse(equals + 1, &dtype)) malformed(row, line, equals + 1);
        attr[i].i = dtype;
        return;
      }
      case ATTR_TEXT: attr[i].s = strdup(equals + 1); return;
      case ATTR_DATA:
      case ATTR_GRAPH: break;
    }
  }
  malformed(row, line, word);
}

void case_parse(const op_row *row, const char *line, op_case *out) {
  *out = (op_case){.row = row, .text = line};
  for (int i = 0; i < OP_MAX_ATTRS && row->attrs[i].name; i++) {
    if (row->attrs[i].kind == ATTR_FLOAT)
      out->attr[i].f = row->attrs[i].standard;
    else
      out->attr[i].i = (int64_t)row->attrs[i].standard;
  }
  char *copy = strdup(line), *rest = NULL;
  assert_non_null(copy);
  for (char *word = strtok_r(copy, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
    if (strchr(word, '=') && !strchr(word, '['))
      parse_attr(row, line, word, out->attr);
    else if (out->ins == CASE_INPUTS)
      malformed(row, line, word);
    else
      parse_input(row, line, word, &out->in[out->ins++]);
  }
  free(copy);
  for (int i = 0; i < OP_MAX_ATTRS && row->attrs[i].name; i++)
    if (row->attrs[i].kind == ATTR_TEXT && !out->attr[i].s) out->attr[i].s = strdup("");
  if (out->ins < row->ins_min || (row->ins_max >= 0 && out->ins > row->ins_max))
    fail_msg("%s: case \"%s\" has %d inputs", row->name, line, out->ins);
  out->outs = row->outs >= 0 ? row->outs : (int)out->attr[0].i;
}

void case_fini(op_case *c) {
  for (int i = 0; i < c->ins; i++) free(c->in[i].of_own);
  for (int i = 0; i < OP_MAX_ATTRS && c->row->attrs[i].name; i++)
    if (c->row->attrs[i].kind == ATTR_TEXT) free((char *)c->attr[i].s);
}

void case_infer(const op_case *c, shoal_dtype real, bool built, case_shapes *out) {
  memset(out, 0, sizeof *out);
  for (int i = 0; i < c->ins; i++) {
    out->in[i] = c->in[i].shape;
    if (built && c->in[i].batched) out->in[i].dim[0] = SHOAL_UNKNOWN;
    out->in_dtype[i] = c->in[i].real ? real : c->in[i].dtype;
  }
  out->s = (op_shapes){c->ins, c->outs, out->in, out->in_dtype, c->attr, out->out, out->out_dtype};
  shoal_status status = c->row->shape(&out->s);
  if (status)
    fail_msg("%s: case \"%s\"%s: %s", c->row->name, c->text, built ? " with an unknown batch" : "",
             shoal_status_message(status));
}

shoal_tensor case_tensor(shoal_dtype dtype, shoal_shape shape, bool garbage) {
  shoal_tensor t;
  shoal_status status = shoal_tensor_create(dtype, shape, &t);
  if (status) fail_msg("%s", shoal_status_message(status));
  if (garbage) memset(t.data, 0xff, shoal_tensor_bytes(&t)); /* not-a-numbers, or -1 */
  return t;
}

/* The output of another operator. */
static void fill_by(const op_case *c, const case_input *in, shoal_tensor *t, shoal_dtype real) {
  op_case own = *c;
  if (in->of_own) case_parse(in->of, in->of_own, &own);
  shoal_tensor x = case_fill(&own, in->of_own ? 0 : in->of_input, real);
  kernel_call call = {.in = &x, .out = t, .ins = 1, .outs = 1, .attr = own.attr};
  shoal_status status = in->of->kernel(&call);
  if (status) fail_msg("%s: case \"%s\": %s", c->row->name, c->text, shoal_status_message(status));
  shoal_tensor_fini(&x);
  if (in->of_own) case_fini(&own);
}

shoal_tensor case_fill(const op_case *c, int i, shoal_dtype real) {
  const case_input *in = &c->in[i];
  shoal_tensor t = case_tensor(in->real ? real : in->dtype, in->shape, false);
  if (in->values == VALUES_OF) {
    fill_by(c, in, &t, real);
    return t;
  }
  bool is_real = t.dtype == SHOAL_F32 || t.dtype == SHOAL_F64;
  int64_t n = shoal_tensor_count(&t);
  random_stream stream = random_stream_make(20240229, (uint64_t)i);
  for (int64_t k = 0; k < n; k++) {
    double u = random_uniform_at(&stream, (uint64_t)k), value;
    switch (in->values) {
      case VALUES_POSITIVE: value = is_real ? (float)(0.5 + u) : 1 + (int)(9 * u); break;
      case VALUES_BELOW: value = is_real ? (float)(u * (double)in->bound) : (int64_t)(u * (double)in->bound); break;
      case VALUES_WIDE: value = (float)((2 * u - 1) * (double)in->bound); break;
      case VALUES_ASCENDING: /* the last is the bound, and steps vary, some of them zero */
        value = k == n - 1 ? in->bound : k * in->bound / n + (k % 2 && k + 1 < n ? in->bound / n / 2 : 0);
        break;
      case VALUES_DISTINCT: value = (double)((k * 7 + 3) % in->bound); break;
      default:
        value = is_real                 ? (float)(2 * u - 1)
                : t.dtype == SHOAL_BOOL ? u < 0.5
                : t.dtype == SHOAL_U8   ? (int)(256 * u)
                                        : (int)(20 * u) - 10;
    }
    shoal_tensor_set(&t, k, value);
  }
  if (in->values == VALUES_DISTINCT)
    for (int64_t a = 0; a < n; a++)
      for (int64_t b = 0; b < a; b++)
        if (shoal_tensor_get(&t, a) == shoal_tensor_get(&t, b))
          fail_msg("%s: case \"%s\": choose a bound above the count and not a multiple of 7", c->row->name, c->text);
  return t;
}

void case_memory_init(const op_case *c, const case_shapes *shapes, shoal_dtype real, case_memory *out) {
  *out = (case_memory){.ins = c->ins, .outs = c->outs, .aliased = c->row->updates != 0};
  for (int i = 0; i < c->ins; i++) out->in[i] = case_fill(c, i, real);
  for (int i = 0; i < c->outs; i++)
    out->out[i] = i == 0 && out->aliased ? out->in[0] : case_tensor(shapes->out_dtype[i], shapes->out[i], true);
}

void case_memory_fini(case_memory *m) {
  for (int i = 0; i < m->ins; i++) shoal_tensor_fini(&m->in[i]);
  for (int i = m->aliased; i < m->outs; i++) shoal_tensor_fini(&m->out[i]);
}

kernel_call case_call(const op_case *c, case_memory *m) {
  int64_t rows = 0;
  for (int i = 0; i < c->ins && !rows; i++)
    if (c->in[i].batched) rows = c->in[i].shape.dim[0];
  return (kernel_call){.in = m->in,
                       .out = m->out,
                       .ins = m->ins,
                       .outs = m->outs,
                       .attr = c->attr,
                       .all_rows = rows,
                       .seed = 7,
                       .step = 3,
                       .stream = 11};
}
