/* Who serves a part of the parameters: a primary and, if there is one, its backup.
 *
 * A replicated server has two members, processes that can each hold the same vectors. Which of them is what is a view.
 * Views are made by one arbiter, a thread of worker 0 (ps_arbiter.h), and told to the members; what the members do with
 * them is ps_replica.h. This file is the decision alone: a function of the last view and of what the members said
 * (a model of all of it for spin is tests/model/replica.pml, which the test `model` checks).
 *
 *  1. Terms ascend. A view is on disk before anybody is told of it, and the next one is made from it.
 *  2. A life is what a member is called between two losses of its memory: it changes when the process starts and when a
 *     member drops what it holds. A view names lives, so nobody stands in for a life that has ended.
 *  3. A backup becomes primary only if the last view names its life, and the primary of that view is silent or its life
 *     has ended.
 *  4. A backup enters a view only when the primary has said, in the term of the last view, that it answers nothing any
 *     more before this backup has it.
 *  5. A life that ended takes its parameters with it. If no life in the view is left, a member that holds nothing begins
 *     anew, and the workers go back to a checkpoint. Such a view says so: the member may meanwhile be a backup of the life
 *     that has ended, and drops what it holds instead of serving it. */
#ifndef SHOAL_DIST_PS_VIEW_H
#define SHOAL_DIST_PS_VIEW_H

#include "base/text.h"

#include <stdbool.h>
#include <stdint.h>

enum { PS_MEMBERS = 2 }; /* of a replicated server */

typedef struct {
  uint64_t term;                      /* 0: no view was made yet */
  int32_t primary, backup;            /* members; -1: none */
  uint64_t primary_life, backup_life; /* 0: none */
  int32_t anew; /* the primary holds nothing: what it may have been given since it said so counts not */
  int32_t unused;
} ps_view;

typedef enum {
  PS_BLANK,   /* holds nothing */
  PS_PRIMARY, /* serves */
  PS_BACKUP   /* follows a primary */
} ps_role;

/* What a member says of itself. */
typedef struct {
  uint64_t life;
  uint64_t term;   /* of the newest view it knows */
  uint64_t awaits; /* of a primary: the life of the backup without which it answers nothing; 0: none */
  int32_t role;    /* ps_role */
  int32_t cut_off; /* of a primary: that backup does not take what it is sent */
  double busy;     /* seconds that it took for a message at most: it is not silent before a multiple of that */
  int64_t updates; /* made so far */
  int64_t unused[2];
} ps_member_status;

/* What the arbiter knows of a member. */
typedef struct {
  bool heard;  /* it has said something, ever */
  bool silent; /* its last word is too long ago */
  ps_member_status said;
} ps_member;

/* Whether another view is due; *out: that. patient: a job has just begun, and the first member may still come. */
bool ps_view_next(const ps_view *last, const ps_member members[PS_MEMBERS], bool patient, ps_view *out);
/* The life that the primary should send all it holds to, so that it can be its backup; 0: none. */
uint64_t ps_view_to_fill(const ps_view *v, const ps_member members[PS_MEMBERS], int *member);

/* As a line of text, and back; false: it is none. */
void ps_view_write(const ps_view *v, text *out);
bool ps_view_read(const char *words, ps_view *out);

_Static_assert(sizeof(ps_view) == 40 && sizeof(ps_member_status) == 64, "they travel as they are: no holes");

#endif
