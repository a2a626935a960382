/* Finding the library that carries an all-reduce's messages. */
#include "base/build_info.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "dist/collective.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define HANDOVER_TAG (1 << 30)             /* above those of buckets */
#define HANDOVER_PIECE ((int64_t)16 << 20) /* bytes, each in its own time */
#define WAIT_SECONDS 0.02

static bool is_in(const char *folder, const char *name, char path[PATH_MAX]) {
  int n = snprintf(path, PATH_MAX, "%s/shoal-%s.so", folder, name);
  return n > 0 && n < PATH_MAX && !access(path, R_OK);
}

/* Beside the program (as it is built), or where it was installed; SHOAL_PLUGINS comes first. */
static bool find(const char *name, char path[PATH_MAX]) {
  const char *asked = getenv("SHOAL_PLUGINS");
  if (asked && *asked) return is_in(asked, name, path);
  char self[PATH_MAX];
  ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
  if (n > 0) {
    self[n] = 0;
    char *slash = strrchr(self, '/');
    if (slash) *slash = 0;
    if (is_in(self, name, path)) return true;
  }
  return is_in(build_plugin_dir(), name, path);
}

bool collective_there(const char *name) {
  char path[PATH_MAX];
  return find(name, path);
}

static shoal_status take_place(collective_place *p, const void *start, collective_place *out) {
  p->why = calloc(1, LINK_WHY);
  if (!p->why) return status_no_memory();
  if (!p->link->begin(start, p->why, &p->at, &p->rank, &p->ranks)) {
    shoal_status status = status_make(SHOAL_ERR_SYSTEM, "%s", p->why);
    free(p->why);
    return status;
  }
  p->id = p->rank;
  *out = *p;
  return NULL;
}

shoal_status collective_join(const char *name, collective_place *out) {
  char path[PATH_MAX];
  if (!find(name, path))
    return status_make(SHOAL_ERR_SYSTEM,
                       "this Shoal was built without %s (no shoal-%s.so beside the program nor in %s): "
                       "install libopenmpi-dev and openmpi-bin and build again",
                       name, name, build_plugin_dir());
  collective_place p = {0};
  shoal_status status = NULL;
  /* Global: MPI opens libraries of its own that look for its symbols. */
  p.library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
  p.link = p.library ? dlsym(p.library, LINK_SYMBOL) : NULL;
  if (!p.link)
    status = status_make(SHOAL_ERR_SYSTEM, "%s cannot be opened: %s", path, dlerror());
  else if (p.link->version != LINK_VERSION)
    status = status_make(SHOAL_ERR_SYSTEM, "%s has version %d, this program takes %d: build both together", path,
                         p.link->version, LINK_VERSION);
  return status ? status : take_place(&p, NULL, out);
}

shoal_status collective_join_own(const mesh_options *start, collective_place *out) {
  return collective_join_by(&link_own, start, out);
}

shoal_status collective_join_by(const link_table *link, const void *start, collective_place *out) {
  return take_place(&(collective_place){.link = link}, start, out);
}

shoal_status collective_leave(collective_place *p) {
  if (!p->link) return NULL;
  shoal_status status = p->link->end(p->at) ? NULL : status_make(SHOAL_ERR_PEER, "%s", p->why);
  free(p->why); /* the library stays: MPI does not like to be unloaded */
  *p = (collective_place){0};
  return status;
}

void collective_drop(collective_place *p) {
  if (!p->link) return;
  p->link->drop(p->at);
  free(p->why);
  *p = (collective_place){0};
}

void collective_abort(collective_place *p, int code) { p->link->abort(p->at, code); }

shoal_status collective_broadcast(collective_place *p, void *bytes, int64_t count) {
  return p->link->broadcast(p->at, bytes, count) ? NULL : status_make(SHOAL_ERR_PEER, "broadcast: %s", p->why);
}

/* One piece of it: a message each. */
static shoal_status hand_over_piece(collective_place *p, const collective_handover *h, void *bytes, int64_t count) {
  const link_table *link = p->link;
  link_set *set = NULL;
  bool good = link->set_create(p->at, p->ranks, &set), done = false, gone = false;
  for (int r = 0; good && r < p->ranks; r++)
    if (h->to[r] && p->rank == h->from)
      good = link->set_send(set, bytes, count, r, HANDOVER_TAG);
    else if (h->to[r] && p->rank == r)
      good = link->set_receive(set, bytes, count, h->from, HANDOVER_TAG);
  if (good) good = link->set_start(set, NULL);
  for (const double until = clock_seconds() + h->patience; good && !done && !gone;) {
    int late[1];
    good = link->move(p->at) && link->set_test(set, &done);
    if (!good || done) break;
    gone = link->set_late(set, late, 1) && link->gone(p->at, late[0]);
    gone |= (h->interrupted && h->interrupted(h->context)) || clock_seconds() > until;
    if (!gone) link->wait(p->at, WAIT_SECONDS);
  }
  link->set_free(set);
  if (!good) return status_make(SHOAL_ERR_PEER, "between the ranks: %s", p->why);
  p->cut |= gone;
  return gone ? status_make(SHOAL_ERR_PEER, "a rank has ended") : NULL;
}

shoal_status collective_hand_over(collective_place *p, const collective_handover *h, void *bytes, int64_t count) {
  if (p->rank != h->from && !h->to[p->rank]) return NULL;
  for (int64_t at = 0; at < count; at += HANDOVER_PIECE)
    TRY(hand_over_piece(p, h, (char *)bytes + at, MIN_OF(count - at, HANDOVER_PIECE)));
  return NULL;
}

bool collective_told(const collective_place *p) {
  int rank;
  return p->link && p->link->told && p->link->told(p->at, &rank);
}
