/* Walking a row-major tensor (the frame) together with up to three others that are seen through strides: broadcast
 * operands have stride 0, reduced outputs too, transposed and sliced ones whatever they have.
 *
 *   walk w;
 *   walk_init(&w, &frame, strides_a, strides_b);
 *   for (; w.left > 0; walk_next(&w))
 *     for (int64_t i = 0; i < w.n; i++) use frame[i], a[w.a + i * w.step_a], b[w.b + i * w.step_b];   frame += w.n
 *
 * Axes that lie one after the other in all of them are merged, so the inner loop is as long as it can be. */
#ifndef SHOAL_GRAPH_OPS_WALK_H
#define SHOAL_GRAPH_OPS_WALK_H

#include "shoal/tensor.h"

typedef struct {
  int64_t left;                   /* inner loops still to do */
  int64_t n;                      /* length of the inner loop */
  int64_t step_a, step_b, step_c; /* elements from one to the next in the inner loop */
  int64_t a, b, c;                /* where the inner loop starts, in elements */
  int rank;                       /* of the outer loops, after merging */
  int64_t dim[SHOAL_MAX_RANK], at[SHOAL_MAX_RANK];
  int64_t stride_a[SHOAL_MAX_RANK], stride_b[SHOAL_MAX_RANK], stride_c[SHOAL_MAX_RANK];
} walk;

/* strides_b may be NULL. */
void walk_init(walk *w, const shoal_shape *frame, const int64_t *strides_a, const int64_t *strides_b);
/* As above with a third: w.c, w.step_c. Each may be NULL. */
void walk_init_three(walk *w, const shoal_shape *frame, const int64_t *strides_a, const int64_t *strides_b,
                     const int64_t *strides_c);
void walk_next(walk *w);

/* Strides of an operand of shape `from` that is broadcast to `to`, axes aligned at the end. */
void walk_broadcast(const shoal_shape *from, const shoal_shape *to, int64_t strides[SHOAL_MAX_RANK]);
/* Strides, for each axis of `frame`, of a tensor that holds frame's axes but those in the bit set `reduced`. */
void walk_reduced(const shoal_shape *frame, uint32_t reduced, int64_t strides[SHOAL_MAX_RANK]);

/* The groups of elements that a reduction makes one of, in the order of its results.
 *
 *   for (walk_groups_init(&g, &frame, reduced); g.left > 0; walk_groups_next(&g))
 *     for (walk w = g.inside; w.left > 0; walk_next(&w))
 *       for (int64_t i = 0; i < w.n; i++) use frame[g.first + w.a + i * w.step_a] */
typedef struct {
  int64_t left;  /* groups still to do */
  int64_t first; /* element of the frame that the group under way starts with */
  int64_t count; /* elements of a group */
  walk inside;
  walk outside; /* through the first elements */
  int64_t at;   /* in its inner loop */
} walk_groups;
void walk_groups_init(walk_groups *g, const shoal_shape *frame, uint32_t reduced);
void walk_groups_next(walk_groups *g);

#endif
