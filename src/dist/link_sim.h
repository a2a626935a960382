/* Messages between ranks that are tasks of a simulation (net/sim.h). See link.h. */
#ifndef SHOAL_DIST_LINK_SIM_H
#define SHOAL_DIST_LINK_SIM_H

#include "dist/link.h"
#include "net/sim.h"

/* Where ranks find each other; one for all of them. */
typedef struct {
  sim_end **ends; /* [ranks] NULL at first */
  int *hosts;     /* [ranks] */
  int ranks;
} link_sim_world;

/* What `begin` is given. In the header of its messages, `number` is the tag. */
typedef struct {
  link_sim_world *world;
  int rank;
} link_sim_start;

extern const link_table link_sim;

#endif
