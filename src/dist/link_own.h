/* Messages between ranks over shared memory, TCP or TLS: no MPI is needed. See link.h. */
#ifndef SHOAL_DIST_LINK_OWN_H
#define SHOAL_DIST_LINK_OWN_H

#include "dist/link.h"
#include "net/mesh.h"

/* What `begin` is given: a mesh_options. Its patience also holds for each broadcast. */
extern const link_table link_own;

#endif
