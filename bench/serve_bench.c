/* Requests of one row each at a steady rate to `shoal serve`, and how long the answers took.
 *
 *   serve_bench PORT MODEL [RATE [SECONDS [CONNECTIONS [FEATURES]]]]      10000 a second, 5 s, 32 connections
 *
 * A request is due at its time whatever happened to those before it: an answer's time counts from there, so that a
 * server that pauses is not flattered. Rows are sparse, of 39 features below FEATURES (33762578), sent as JSON or, with
 * SERVE_BENCH=binary in the environment, as binary rows. Prints one line of JSON. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { ENTRIES = 39, REQUEST_MAX = 4096, CONNECTIONS_MAX = 512 };

typedef struct {
  int socket;
  bool busy;
  double due;     /* of the request under way */
  char got[8192]; /* of its answer */
  size_t n;
} connection;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static uint64_t next_random(uint64_t *state) {
  *state = *state * 6364136223846793005ull + 1442695040888963407ull;
  return *state >> 33;
}

static int compare_numbers(const void *a, const void *b) {
  const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  return x < y ? -1 : x > y;
}

/* Ascending, all different. */
static void draw_row(uint64_t *state, uint32_t features, uint32_t out[ENTRIES]) {
  for (int i = 0; i < ENTRIES; i++) out[i] = (uint32_t)(next_random(state) % (features - ENTRIES));
  qsort(out, ENTRIES, sizeof *out, compare_numbers);
  for (int i = 0; i < ENTRIES; i++) out[i] += (uint32_t)i;
}

static size_t make_request(const char *model, bool binary, const uint32_t row[ENTRIES], char out[REQUEST_MAX]) {
  char body[2048];
  size_t n = 0;
  if (binary) {
    const uint32_t head[] = {1, ENTRIES};
    float values[ENTRIES];
    for (int i = 0; i < ENTRIES; i++) values[i] = 1;
    memcpy(body, head, sizeof head);
    memcpy(body + sizeof head, row, ENTRIES * sizeof *row);
    memcpy(body + sizeof head + ENTRIES * sizeof *row, values, sizeof values);
    n = sizeof head + ENTRIES * sizeof *row + sizeof values;
  } else {
    n = (size_t)snprintf(body, sizeof body, "{\"instances\":[{\"indices\":[");
    for (int i = 0; i < ENTRIES; i++) n += (size_t)snprintf(body + n, sizeof body - n, "%s%u", i ? "," : "", row[i]);
    n += (size_t)snprintf(body + n, sizeof body - n, "]}]}");
  }
  int head = snprintf(out, REQUEST_MAX,
                      "POST /v1/models/%s:predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: %s\r\n"
                      "Content-Length: %zu\r\n\r\n",
                      model, binary ? "application/octet-stream" : "application/json", n);
  memcpy(out + head, body, n);
  return (size_t)head + n;
}

static int open_connection(int port) {
  struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
  a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  int s = socket(AF_INET, SOCK_STREAM, 0), yes = 1;
  if (s < 0 || connect(s, (struct sockaddr *)&a, sizeof a)) {
    perror("connect");
    exit(1);
  }
  setsockopt(s, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  fcntl(s, F_SETFL, O_NONBLOCK);
  return s;
}

/* Whether the whole answer is there; *good: it is a 200. */
static bool answered(const connection *c, bool *good) {
  const char *end = memmem(c->got, c->n, "\r\n\r\n", 4), *length;
  if (!end) return false;
  length = memmem(c->got, (size_t)(end - c->got), "Content-Length: ", 16);
  if (!length) length = memmem(c->got, (size_t)(end - c->got), "Content-length: ", 16);
  *good = c->n > 12 && !memcmp(c->got + 9, "200", 3);
  return length && c->n >= (size_t)(end + 4 - c->got) + (size_t)atoi(length + 16);
}

static int compare_times(const void *a, const void *b) {
  const float x = *(const float *)a, y = *(const float *)b;
  return x < y ? -1 : x > y;
}

static double at_share(const float *sorted, size_t n, double share) {
  return n ? 1e3 * (double)sorted[(size_t)((double)(n - 1) * share)] : 0;
}

int main(int argc, char **argv) {
  if (argc < 3) return fprintf(stderr, "usage: serve_bench PORT MODEL [RATE [SECONDS [CONNECTIONS [FEATURES]]]]\n"), 2;
  const int port = atoi(argv[1]), connections = argc > 5 ? atoi(argv[5]) : 32;
  const double rate = argc > 3 ? atof(argv[3]) : 10000, seconds = argc > 4 ? atof(argv[4]) : 5;
  const uint32_t features = argc > 6 ? (uint32_t)atoll(argv[6]) : 33762578;
  const bool binary = getenv("SERVE_BENCH") && !strcmp(getenv("SERVE_BENCH"), "binary");
  if (connections < 1 || connections > CONNECTIONS_MAX || features < 100 || !(rate > 0) || !(seconds > 0)) return 2;
  connection *all = calloc((size_t)connections, sizeof *all);
  struct pollfd *wait = calloc((size_t)connections, sizeof *wait);
  const size_t planned = (size_t)(rate * seconds);
  float *took = calloc(planned + 1, sizeof *took);
  if (!all || !wait || !took) return 1;
  for (int i = 0; i < connections; i++) wait[i] = (struct pollfd){all[i].socket = open_connection(port), POLLIN, 0};
  uint64_t state = 1;
  size_t sent = 0, done = 0, bad = 0;
  const double start = now();
  while (done < planned) {
    double t = now();
    if (t > start + seconds + 10) break; /* answers are missing */
    for (int i = 0; i < connections && sent < planned && start + (double)sent / rate <= t; i++) {
      connection *c = &all[i];
      if (c->busy) continue;
      char request[REQUEST_MAX];
      uint32_t row[ENTRIES];
      draw_row(&state, features, row);
      size_t n = make_request(argv[2], binary, row, request);
      if (write(c->socket, request, n) != (ssize_t)n) return perror("write"), 1;
      c->busy = true;
      c->n = 0;
      c->due = start + (double)sent++ / rate;
    }
    const double next = sent < planned ? start + (double)sent / rate - now() : 0.01;
    struct timespec patience = {0, next > 0 ? (long)(1e9 * (next < 0.01 ? next : 0.01)) : 0};
    ppoll(wait, (nfds_t)connections, &patience, NULL);
    for (int i = 0; i < connections; i++) {
      connection *c = &all[i];
      if (!(wait[i].revents & (POLLIN | POLLHUP | POLLERR))) continue;
      ssize_t n = read(c->socket, c->got + c->n, sizeof c->got - c->n);
      if (n == 0 || (n < 0 && errno != EAGAIN)) return fprintf(stderr, "connection %d was closed\n", i), 1;
      if (n > 0) c->n += (size_t)n;
      bool good;
      if (!c->busy || !answered(c, &good)) continue;
      bad += !good;
      took[done++] = (float)(now() - c->due);
      c->busy = false;
    }
  }
  const double wall = now() - start;
  qsort(took, done, sizeof *took, compare_times);
  printf(
      "{\"requests\": %zu, \"unanswered\": %zu, \"bad\": %zu, \"seconds\": %.3f, \"rate\": %.0f, \"p50_ms\": %.3f, "
      "\"p99_ms\": %.3f, \"p999_ms\": %.3f, \"max_ms\": %.3f}\n",
      done, planned - done, bad, wall, (double)done / wall, at_share(took, done, 0.5), at_share(took, done, 0.99),
      at_share(took, done, 0.999), at_share(took, done, 1));
  return bad || done < planned;
}
