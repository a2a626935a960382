/* All-reduces for SimGrid's SMPI, whose network is another model than ours: see smpi.py.
 *
 * usage: smpirun ... smpi_allreduce ALGORITHM NUMBERS ROUNDS
 * Prints the simulated seconds of one all-reduce of so many floats, the mean of the rounds. */
#include <mpi.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
  float *values, *room; /* [count] */
  int count, rank, ranks;
  MPI_Request *requests; /* [2 * ranks] */
} job;

/* Piece i of n: [first, last). */
static int edge(const job *j, int i) { return (int)((long long)j->count * i / j->ranks); }

static void add(float *to, const float *from, int n) {
  for (int i = 0; i < n; i++) to[i] += from[i];
}

/* As Shoal does with large ones: each rank adds up its piece, which all send to it, and sends the sum to all. */
static void direct(job *j) {
  const int own = edge(j, j->rank), size = edge(j, j->rank + 1) - own;
  float *pieces = malloc((size_t)j->ranks * (size_t)(size + 1) * sizeof *pieces);
  for (int round = 0; round < 2; round++) {
    int n = 0;
    for (int k = 1; k < j->ranks; k++) {
      const int from = (j->rank + j->ranks - k) % j->ranks, to = (j->rank + k) % j->ranks;
      const int theirs = edge(j, from), their_size = edge(j, from + 1) - theirs, at = edge(j, to);
      if (round)
        MPI_Irecv(j->values + theirs, their_size, MPI_FLOAT, from, round, MPI_COMM_WORLD, &j->requests[n++]);
      else
        MPI_Irecv(pieces + (size_t)from * (size_t)size, size, MPI_FLOAT, from, round, MPI_COMM_WORLD,
                  &j->requests[n++]);
      MPI_Isend(j->values + (round ? own : at), round ? size : edge(j, to + 1) - at, MPI_FLOAT, to, round,
                MPI_COMM_WORLD, &j->requests[n++]);
    }
    MPI_Waitall(n, j->requests, MPI_STATUSES_IGNORE);
    for (int k = 0; !round && k < j->ranks; k++)
      if (k != j->rank) add(j->values + own, pieces + (size_t)k * (size_t)size, size);
  }
  free(pieces);
}

/* As Shoal does with small ones: everything to everybody. */
static void whole(job *j) {
  float *all = malloc((size_t)j->ranks * (size_t)j->count * sizeof *all);
  int n = 0;
  for (int k = 1; k < j->ranks; k++) {
    const int from = (j->rank + j->ranks - k) % j->ranks, to = (j->rank + k) % j->ranks;
    MPI_Irecv(all + (size_t)from * (size_t)j->count, j->count, MPI_FLOAT, from, 0, MPI_COMM_WORLD, &j->requests[n++]);
    MPI_Isend(j->values, j->count, MPI_FLOAT, to, 0, MPI_COMM_WORLD, &j->requests[n++]);
  }
  MPI_Waitall(n, j->requests, MPI_STATUSES_IGNORE);
  for (int k = 0; k < j->ranks; k++)
    if (k != j->rank) add(j->values, all + (size_t)k * (size_t)j->count, j->count);
  free(all);
}

static void exchange(const float *out, int n_out, int to, float *in, int n_in, int from) {
  MPI_Sendrecv(out, n_out, MPI_FLOAT, to, 0, in, n_in, MPI_FLOAT, from, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* Pieces go round: n - 1 times they are added to, n - 1 times handed on. */
static void ring(job *j) {
  const int n = j->ranks, right = (j->rank + 1) % n, left = (j->rank + n - 1) % n;
  for (int s = 0; s < 2 * (n - 1); s++) {
    const int sum = s < n - 1, out = (j->rank + 2 * n - s) % n, in = (out + n - 1) % n;
    const int a = edge(j, out), b = edge(j, in), size = edge(j, in + 1) - b;
    exchange(j->values + a, edge(j, out + 1) - a, right, sum ? j->room : j->values + b, size, left);
    if (sum) add(j->values + b, j->room, size);
  }
}

/* Halves with ever nearer partners, then back. The number of ranks is a power of two. */
static void halving(job *j) {
  int first = 0, last = j->ranks;
  for (int half = j->ranks / 2; half; half /= 2) {
    const int partner = j->rank ^ half, middle = first + half, lower = j->rank < partner;
    const int keep = lower ? first : middle, give = lower ? middle : first;
    const int a = edge(j, give), b = edge(j, keep), size = edge(j, keep + half) - b;
    exchange(j->values + a, edge(j, give + half) - a, partner, j->room, size, partner);
    add(j->values + b, j->room, size);
    first = keep;
    last = keep + half;
  }
  for (int half = 1; half < j->ranks; half *= 2) {
    const int partner = j->rank ^ half, theirs = j->rank < partner ? last : first - half;
    const int a = edge(j, first), b = edge(j, theirs);
    exchange(j->values + a, edge(j, last) - a, partner, j->values + b, edge(j, theirs + half) - b, partner);
    first = first < theirs ? first : theirs;
    last = first + 2 * half;
  }
}

static const struct {
  const char *name;
  void (*run)(job *j);
} algorithms[] = {{"direct", direct}, {"whole", whole}, {"ring", ring}, {"halving", halving}};

/* Whether the sums are what they should be, on this rank. */
static int is_right(const job *j) {
  for (int i = 0; i < j->count; i++)
    if (j->values[i] != (float)(j->ranks * (j->ranks + 1) / 2 * (1 + i % 7))) return 0;
  return 1;
}

static void start_values(job *j) {
  for (int i = 0; i < j->count; i++) j->values[i] = (float)((j->rank + 1) * (1 + i % 7));
}

int main(int argc, char **argv) {
  job j = {0};
  void (*run)(job * j) = NULL;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &j.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &j.ranks);
  for (size_t i = 0; argc == 4 && i < sizeof algorithms / sizeof *algorithms; i++)
    if (!strcmp(argv[1], algorithms[i].name)) run = algorithms[i].run;
  if (!run) {
    if (!j.rank) fprintf(stderr, "usage: smpi_allreduce {direct,whole,ring,halving} NUMBERS ROUNDS\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  j.count = atoi(argv[2]);
  j.values = calloc((size_t)j.count, sizeof *j.values);
  j.room = calloc((size_t)j.count, sizeof *j.room);
  j.requests = calloc(2 * (size_t)j.ranks, sizeof(MPI_Request));
  if (!j.values || !j.room || !j.requests) MPI_Abort(MPI_COMM_WORLD, 1);
  const int rounds = atoi(argv[3]);
  MPI_Barrier(MPI_COMM_WORLD);
  const double begun = MPI_Wtime(); /* one after the other, as steps are: ranks leave a barrier at different times */
  for (int i = 0; i < rounds; i++) {
    start_values(&j);
    run(&j);
    if (!is_right(&j)) MPI_Abort(MPI_COMM_WORLD, 3);
  }
  const double seconds = (MPI_Wtime() - begun) / rounds;
  if (!j.rank) printf("%.9f\n", seconds);
  fflush(stdout);
  free(j.values);
  free(j.room);
  free(j.requests);
  MPI_Finalize();
  return 0;
}
