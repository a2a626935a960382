/* Where the ranks of an all-reduce without MPI find each other: their addresses, in a text that the process that starts
 * them puts into their environment, or in a cluster that was described. */
#ifndef SHOAL_DIST_RANK_PLACE_H
#define SHOAL_DIST_RANK_PLACE_H

#include "cluster/cluster.h"
#include "net/key_ring.h"
#include "net/mesh.h"

/* In the environment of ranks that were started without mpirun: "RANK RANKS ADDRESS ADDRESS ...", all ranks' in order; behind
 * those of the ranks that the job began with, those of ranks that came later. */
#define RANK_PLACE "SHOAL_RANK"

typedef struct {
  mesh_options mesh;
  char **addresses; /* [count] */
  int count;
  key_ring listening, connecting;
  int here;        /* ranks on this host, as far as the addresses say */
  bool first_here; /* the lowest of them */
} rank_place;

/* Addresses for so many ranks of this machine, one after the other with blanks between; the caller frees. name: unique to
 * the job. */
SHOAL_CHECKED shoal_status rank_place_make(const char *carrier, int64_t ranks, const char *name, char **out);
/* Adds one for another rank to such a text. */
SHOAL_CHECKED shoal_status rank_place_extend(const char *carrier, int64_t rank, const char *name, char **addresses);
/* The rank in the environment; -1: there is none. */
int rank_place_given(void);
/* What the environment says. To be finished also after a failure. */
SHOAL_CHECKED shoal_status rank_place_read(rank_place *out);
/* This process among the workers of a cluster. To be finished also after a failure. */
SHOAL_CHECKED shoal_status rank_place_of_cluster(const cluster *c, rank_place *out);
typedef struct {
  const char *keys; /* a folder, or NULL; shared memory needs none */
  bool insecure;    /* other hosts without keys */
  double patience;  /* seconds until all are there */
} rank_place_options;

/* Reads the keys. */
SHOAL_CHECKED shoal_status rank_place_arm(rank_place *p, const rank_place_options *options);
void rank_place_fini(rank_place *p);

#endif
