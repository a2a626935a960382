/* What this machine offers to a training, measured where a number cannot be looked up. */
#ifndef SHOAL_CLI_MACHINE_H
#define SHOAL_CLI_MACHINE_H

#define MACHINE_FACTS 24

typedef struct {
  const char *name;  /* "memory" */
  char value[120];   /* "1.9 GB free of 3.8 GB" */
  char wrong[240];   /* what is wrong with it and what to do; empty: nothing */
} machine_fact;

/* Takes half a second or so. Returns how many. */
int machine_look(machine_fact out[MACHINE_FACTS]);

#endif
