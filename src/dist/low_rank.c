#include "dist/low_rank.h"

#include "base/mem.h"
#include "base/random.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LANES = 16 };        /* partial sums of a product, so that they fill vectors */
enum { WORTH_IT = 4 };      /* a tensor is factored if that makes it so many times smaller */
#define NO_DIRECTION 1e-20f /* what is shorter points nowhere */

typedef struct {
  int64_t rows, columns;
  int64_t at;            /* in the vector of gradients */
  int64_t first, second; /* in the exchanges */
  float *left;           /* [rows, columns] what earlier steps left out, and in a step M; NULL: travels whole */
  float *q;              /* [rank, columns] of the last step */
} factored;

struct low_rank {
  int rank, tensors;
  uint64_t seed, step;
  factored *t; /* [tensors] */
};

static int64_t count_of(const factored *t) { return t->rows * t->columns; }

/* ---- vectors */

static float dot(const float *a, const float *b, int64_t n) {
  float lanes[LANES] = {0}, sum = 0;
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES)
    for (int k = 0; k < LANES; k++) lanes[k] += a[i + k] * b[i + k];
  for (int k = 0; k < LANES; k++) sum += lanes[k];
  for (; i < n; i++) sum += a[i] * b[i];
  return sum;
}

static void add_scaled(float *to, const float *from, float scale, int64_t n) {
  for (int64_t i = 0; i < n; i++) to[i] += from[i] * scale;
}

/* to [n] += scale * p' q: of a row, its numbers in the columns of P, `stride` apart, times the rows of Q [rank, n]. */
static void add_product(float *to, const float *p, int64_t stride, const float *q, float scale, int rank, int64_t n) {
  for (int k = 0; k < rank; k++) add_scaled(to, q + k * n, scale * p[k * stride], n);
}

/* A direction out of nothing, the same on all ranks. */
static void draw(const low_rank *l, int tensor, int k, float *to, int64_t n) {
  const random_stream r = random_stream_make(random_mix(l->seed, l->step), random_mix((uint64_t)tensor, (uint64_t)k));
  for (int64_t i = 0; i < n; i++) to[i] = (float)random_normal_at(&r, (uint64_t)i);
}

/* ---- setting up */

low_rank_shape low_rank_shape_of(const shoal_shape *shape) {
  const int64_t columns = shape->rank > 1 ? shape->dim[shape->rank - 1] : 1;
  return (low_rank_shape){shoal_shape_count(shape) / columns, columns};
}

static shoal_status prepare(low_rank *l, int i) {
  factored *t = &l->t[i];
  if (count_of(t) < WORTH_IT * (t->rows + t->columns) * l->rank) return NULL;
  t->left = calloc((size_t)count_of(t), sizeof *t->left);
  t->q = calloc((size_t)(l->rank * t->columns), sizeof *t->q);
  if (!t->left || !t->q) return status_no_memory();
  for (int k = 0; k < l->rank; k++) draw(l, i, k, t->q + k * t->columns, t->columns);
  return NULL;
}

shoal_status low_rank_create(const low_rank_shape *shapes, int tensors, int rank, uint64_t seed, low_rank **out) {
  low_rank *l = calloc(1, sizeof *l);
  if (!l) return status_no_memory();
  *l = (low_rank){.rank = rank, .tensors = tensors, .seed = seed, .t = calloc((size_t)tensors + 1, sizeof *l->t)};
  shoal_status status = l->t ? NULL : status_no_memory();
  int64_t at = 0, first = 0, second = 0;
  for (int i = 0; i < tensors && !status; i++) {
    l->t[i] =
        (factored){.rows = shapes[i].rows, .columns = shapes[i].columns, .at = at, .first = first, .second = second};
    status = prepare(l, i);
    at += count_of(&l->t[i]);
    first += low_rank_first_count(l, i);
    second += low_rank_second_count(l, i);
  }
  if (status)
    low_rank_destroy(l);
  else
    *out = l;
  return status;
}

void low_rank_destroy(low_rank *l) {
  if (!l) return;
  for (int i = 0; l->t && i < l->tensors; i++) {
    free(l->t[i].left);
    free(l->t[i].q);
  }
  free(l->t);
  free(l);
}

int64_t low_rank_first_count(const low_rank *l, int tensor) {
  const factored *t = &l->t[tensor];
  return t->left ? l->rank * t->rows : count_of(t);
}

int64_t low_rank_second_count(const low_rank *l, int tensor) {
  const factored *t = &l->t[tensor];
  return t->left ? l->rank * t->columns : 0;
}

/* ---- a step */

void low_rank_first(low_rank *l, const float *gradients, float *first) {
  for (int i = 0; i < l->tensors; i++) {
    factored *t = &l->t[i];
    const float *from = gradients + t->at;
    float *p = first + t->first; /* [rank, rows] */
    if (!t->left) {
      memcpy(p, from, (size_t)count_of(t) * sizeof *p);
      continue;
    }
    for (int64_t r = 0; r < t->rows; r++) {
      float *row = t->left + r * t->columns;
      add_scaled(row, from + r * t->columns, 1, t->columns);
      for (int k = 0; k < l->rank; k++) p[k * t->rows + r] = dot(row, t->q + k * t->columns, t->columns);
    }
  }
}

/* Gram and Schmidt, twice: once leaves too much where directions are close to each other. */
static void orthogonalise(const low_rank *l, int tensor, float *p, int64_t n) {
  for (int k = 0; k < l->rank; k++) {
    float *column = p + k * n;
    float length = sqrtf(dot(column, column, n));
    for (int again = 0; again < 2; again++) {
      if (!(length > NO_DIRECTION) && isfinite(length)) draw(l, tensor, k, column, n);
      for (int j = 0; j < k; j++) add_scaled(column, p + j * n, -dot(column, p + j * n, n), n);
      length = sqrtf(dot(column, column, n));
      for (int64_t i = 0; i < n && length > NO_DIRECTION; i++) column[i] /= length;
    }
  }
}

void low_rank_second(low_rank *l, float *first, float *second) {
  for (int i = 0; i < l->tensors; i++) {
    factored *t = &l->t[i];
    float *p = first + t->first, *q = second + t->second;
    if (!t->left) continue;
    orthogonalise(l, i, p, t->rows);
    memset(q, 0, (size_t)(l->rank * t->columns) * sizeof *q);
    for (int64_t r = 0; r < t->rows; r++)
      for (int k = 0; k < l->rank; k++)
        add_scaled(q + k * t->columns, t->left + r * t->columns, p[k * t->rows + r], t->columns);
    for (int64_t r = 0; r < t->rows; r++) /* what this rank's part of the product leaves out */
      add_product(t->left + r * t->columns, p + r, t->rows, q, -1, l->rank, t->columns);
  }
}

void low_rank_finish(low_rank *l, const float *first, const float *second, float *gradients) {
  l->step++;
  for (int i = 0; i < l->tensors; i++) {
    factored *t = &l->t[i];
    const float *p = first + t->first, *q = second + t->second;
    float *to = gradients + t->at;
    if (!t->left) {
      memcpy(to, p, (size_t)count_of(t) * sizeof *to);
      continue;
    }
    for (int64_t r = 0; r < t->rows; r++) {
      float *row = to + r * t->columns;
      memset(row, 0, (size_t)t->columns * sizeof *row);
      add_product(row, p + r, t->rows, q, 1, l->rank, t->columns);
    }
    for (int k = 0; k < l->rank; k++) { /* a step without gradients leaves the directions of the one before */
      const float *column = q + k * t->columns;
      if (dot(column, column, t->columns) > NO_DIRECTION)
        memcpy(t->q + k * t->columns, column, (size_t)t->columns * sizeof *column);
    }
  }
}

void low_rank_add_left(const low_rank *l, float *to) {
  for (int i = 0; i < l->tensors; i++) {
    const factored *t = &l->t[i];
    if (t->left) add_scaled(to + t->at, t->left, 1, count_of(t));
  }
}
