/* A large message there and back, as a gradient and the parameters that answer it: one client, one server, processes of this
 * machine.
 *
 *   net_bench [shm|tcp|tls] [MEGABYTES] [TIMES]
 *
 * Prints TRANSPORT BYTES min=MS GB/s, the latter of one direction, and with tls what this machine allows: a processor that
 * encrypts and copies one after the other, as each end has to. 244.4 MB are AlexNet's. */
#include "base/clock.h"
#include "base/mem.h"
#include "net/keys.h"
#include "net/transport.h"

#include <openssl/evp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { JOB = 79, RECORD = 16384, TIMES_MAX = 1000, PORT = 29731 };
#define PATIENCE 60.0
#define SPEED_SECONDS 0.5

static void check(shoal_status status) {
  if (!status) return;
  fprintf(stderr, "net_bench: %s\n", shoal_status_message(status));
  exit(1);
}

typedef struct {
  char address[64];
  size_t bytes;
  bool secure;
  keys_pair server, client;
} setting;

static net_options options_of(const setting *s, bool server, const char *const *allowed) {
  net_options o = {.largest = s->bytes, .job = JOB};
  if (!s->secure) return o;
  o.public_key = server ? s->server.public_key : s->client.public_key;
  o.secret_key = server ? s->server.secret_key : s->client.secret_key;
  o.allowed = server ? allowed : NULL;
  o.server_key = server ? NULL : s->server.public_key;
  return o;
}

/* Answers each message with as many bytes of its own, until the client has gone. */
static void serve(const setting *s, const uint8_t *bytes) {
  const char *allowed[] = {s->client.public_key, NULL};
  const net_options o = options_of(s, true, allowed);
  net_server *server;
  check(net_listen(s->address, &o, &server));
  for (bool over = false; !over;) {
    net_message m;
    bool got;
    check(net_receive(server, PATIENCE, &m, &got));
    over = !got || m.header.kind == NET_GONE;
    if (!over) check(net_answer(server, m.peer, &(net_header){.kind = 1}, &(net_part){bytes, s->bytes}, 1));
    if (got) net_release_server(server, &m);
  }
  net_server_close(server);
}

static double exchange(const setting *s, const uint8_t *bytes, int times) {
  const net_options o = options_of(s, false, NULL);
  net_client *c;
  double best = 1e9;
  check(net_connect(s->address, &o, PATIENCE, &c));
  for (int i = 0; i <= times; i++) { /* the first one maps memory */
    net_message m;
    const double begun = clock_seconds();
    check(net_send(c, &(net_header){.kind = 1}, &(net_part){bytes, s->bytes}, 1, PATIENCE));
    check(net_await(c, PATIENCE, &m));
    if (m.bytes != s->bytes) check(status_make(SHOAL_ERR_PEER, "%zu bytes came back", m.bytes));
    net_release_client(c, &m);
    if (i) best = MIN_OF(best, clock_seconds() - begun);
  }
  net_client_close(c);
  return best;
}

/* ---- what the machine allows */

static double encryption_rate(const uint8_t *bytes, size_t n) {
  static uint8_t out[RECORD + 16], key[16], iv[12];
  EVP_CIPHER_CTX *c = EVP_CIPHER_CTX_new();
  double done = 0, begun = clock_seconds();
  if (!c || !EVP_EncryptInit_ex(c, EVP_aes_128_gcm(), NULL, key, iv)) exit(1);
  for (size_t at = 0; clock_seconds() - begun < SPEED_SECONDS; at = (at + RECORD) % (n - RECORD)) {
    int got;
    if (!EVP_EncryptInit_ex(c, NULL, NULL, NULL, iv) || !EVP_EncryptUpdate(c, out, &got, bytes + at, RECORD) ||
        !EVP_EncryptFinal_ex(c, out, &got))
      exit(1);
    done += RECORD;
  }
  EVP_CIPHER_CTX_free(c);
  return done / (clock_seconds() - begun);
}

static double copy_rate(uint8_t *to, const uint8_t *from, size_t n) {
  double done = 0, begun = clock_seconds();
  while (clock_seconds() - begun < SPEED_SECONDS) {
    memcpy(to, from, n);
    __asm__ volatile("" : : "r"(to) : "memory");
    done += (double)n;
  }
  return done / (clock_seconds() - begun);
}

int main(int argc, char **argv) {
  const char *kind = argc > 1 ? argv[1] : "tls";
  const double megabytes = argc > 2 ? atof(argv[2]) : 244.4;
  const int times = argc > 3 ? atoi(argv[3]) : 10;
  const bool shared = !strcmp(kind, "shm"), secure = !strcmp(kind, "tls");
  if ((!shared && !secure && strcmp(kind, "tcp")) || megabytes < 1 || times < 1 || times > TIMES_MAX) {
    fprintf(stderr, "usage: net_bench [shm|tcp|tls] [MEGABYTES] [TIMES]\n");
    return 2;
  }
  setting s = {.bytes = (size_t)(1e6 * megabytes), .secure = secure};
  snprintf(s.address, sizeof s.address, shared ? "shm:/shoal-net-bench-%d" : "tcp://127.0.0.1:%d",
           shared ? (int)getpid() : PORT);
  if (secure) {
    check(keys_make(0, &s.server));
    check(keys_make(0, &s.client));
  }
  uint8_t *bytes = malloc(s.bytes), *others = malloc(s.bytes);
  if (!bytes || !others) return 1;
  for (size_t i = 0; i < s.bytes; i++) bytes[i] = (uint8_t)(i * 7 + (i >> 8));
  memset(others, 1, s.bytes);
  const pid_t parent = getpid(), child = fork();
  if (!child) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() == parent) serve(&s, others);
    _exit(0);
  }
  const double seconds = exchange(&s, bytes, times), rate = 2 * (double)s.bytes / seconds;
  waitpid(child, NULL, 0);
  printf("%s %zu min=%.1f ms %.2f GB/s", kind, s.bytes, 1e3 * seconds, rate / 1e9);
  if (secure) {
    const double encrypts = encryption_rate(bytes, s.bytes), copies = copy_rate(others, bytes, s.bytes);
    const double limit = 1 / (1 / encrypts + 1 / copies);
    printf("; AES-128-GCM %.2f GB/s, copies %.2f GB/s: at most %.2f GB/s, %.0f %% of it", encrypts / 1e9, copies / 1e9,
           limit / 1e9, 100 * rate / limit);
  }
  printf("\n");
  free(bytes);
  free(others);
  return 0;
}
