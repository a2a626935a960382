/* Messages that change on their way: a single bit, anywhere in the payload, is noticed before the message is seen, the
 * connection ends with that cause, and others are served on. */
#include "net_case.h"

#include "base/mem.h"
#include "net/shm_link.h"
#include "net/tcp_link.h"

#include <zmq.h>

enum { LARGEST = 40000, FLIPS = 400 };

/* ---- shared memory: both ends of a link in one process */

typedef struct {
  shm_link client, server;
  shm_bell bells[2];
} pair;

static void pair_open(pair *p, size_t largest) {
  const size_t capacity = link_capacity(largest);
  int fd;
  shm_segment one, other;
  *p = (pair){0};
  assert_ok(shm_create(shm_segment_bytes(capacity), &fd));
  assert_ok(shm_segment_map(fd, capacity, &one));
  assert_ok(shm_segment_map(fd, capacity, &other));
  close(fd);
  link_init(&p->client, &one, false, &p->bells[0], NET_JOB, largest);
  link_init(&p->server, &other, true, &p->bells[1], NET_JOB, largest);
}

static void pair_close(pair *p) {
  link_fini(&p->client);
  link_fini(&p->server);
}

/* A message of `bytes` through the link; the byte of that number is changed while it lies in the ring, SIZE_MAX: none. */
static link_result pass(pair *p, const uint8_t *data, size_t bytes, size_t changed, net_message *m) {
  const net_part parts[] = {{data, bytes / 3}, {data + bytes / 3, bytes - bytes / 3}};
  link_outgoing o;
  link_result pushed = LINK_NOTHING, taken = LINK_NOTHING;
  link_outgoing_init(&o, &p->client, &(net_header){.kind = 1}, parts, 2, bytes);
  size_t at = 0; /* of the record, where the ring stands */
  while (taken == LINK_NOTHING) {
    const size_t before = o.left;
    uint8_t *start = ring_at(p->client.out);
    if (pushed != LINK_DONE) pushed = link_push(&p->client, &o);
    const size_t moved = before - o.left, where = WIRE_HEADER + changed;
    if (changed != SIZE_MAX && where >= at && where < at + moved)
      p->client.out->data[(size_t)(start - p->client.out->data + where - at) % p->client.out->capacity] ^= 16;
    at += moved;
    taken = link_take(&p->server, m);
    if (pushed == LINK_DONE && taken == LINK_NOTHING && !link_has_pieces(&p->server)) break;
  }
  return taken;
}

static void flips_in_shared_memory(void **state) {
  static const size_t sizes[] = {1, 64, 4097, 31400, 3 << 20}; /* the last goes in pieces */
  uint8_t *data = malloc(3 << 20);
  assert_non_null(data);
  net_case_fill(data, 3 << 20, 5);
  for (size_t i = 0; i < COUNT_OF(sizes); i++)
    for (uint32_t k = 0; k < (sizes[i] > LARGEST ? 20 : FLIPS); k++) {
      pair p;
      net_message m;
      pair_open(&p, sizes[i]);
      for (int good = 0; good < 3; good++) {
        assert_int_equal(pass(&p, data, sizes[i], SIZE_MAX, &m), LINK_MESSAGE);
        assert_int_equal(m.bytes, sizes[i]);
        assert_int_equal(net_case_differs(m.payload, m.bytes, 5), 0);
        link_release(&p.server, m.hold);
      }
      const size_t changed = (size_t)k * 7919 % sizes[i];
      assert_int_equal(pass(&p, data, sizes[i], changed, &m), LINK_DAMAGED);
      pair_close(&p);
    }
  free(data);
}

/* ---- TCP without keys */

static void flips_in_tcp(void **state) {
  uint8_t data[5000], header[WIRE_HEADER];
  net_case_fill(data, sizeof data, 5);
  const net_part parts[] = {{data, 100}, {data + 100, sizeof data - 100}};
  const net_options options = {.job = NET_JOB, .largest = LARGEST};
  for (int k = 0; k < FLIPS; k++) {
    int ends[2];
    tcp_link sender, link;
    tcp_pool pool = {0};
    tcp_stream_outgoing o;
    net_message m = {0};
    bool more;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    assert_ok(tcp_link_init(&sender, ends[0], NULL, &options));
    assert_ok(tcp_link_init(&link, ends[1], NULL, &options));
    link.known = true;
    tcp_link_prepare(&sender, &(net_header){.kind = 1}, parts, 2, sizeof data, &o);
    memcpy(header, o.header, sizeof header);
    const size_t changed = (size_t)k * 7919 % sizeof data;
    const bool flipped = k % 4 != 0; /* the others are as they were sent */
    if (flipped) data[changed] ^= (uint8_t)(1 << k % 8);
    assert_int_equal(send(ends[0], header, sizeof header, MSG_NOSIGNAL), sizeof header);
    assert_int_equal(send(ends[0], data, sizeof data, MSG_NOSIGNAL), sizeof data);
    if (flipped) data[changed] ^= (uint8_t)(1 << k % 8);
    tcp_result r = TCP_NOTHING;
    while (r == TCP_NOTHING) r = tcp_link_read(&link, &pool, SIZE_MAX / 2, &m, &more);
    assert_int_equal(r, flipped ? TCP_WRONG : TCP_MESSAGE);
    assert_int_equal(link.damaged, flipped);
    if (r == TCP_MESSAGE) pool_give(&pool, m.hold);
    tcp_link_fini(&sender, &pool);
    tcp_link_fini(&link, &pool);
    pool_fini(&pool);
  }
}

/* ---- ZeroMQ, whose connections a server cannot end: their other end is told */

static void damaged_request(const char *address, int unused) {
  void *context = zmq_ctx_new(), *socket = zmq_socket(context, ZMQ_DEALER);
  char name[NET_ADDRESS + 8];
  uint8_t frame[WIRE_HEADER + 100] = {0}, answer[WIRE_HEADER + 200];
  net_header h;
  uint64_t job, bytes;
  snprintf(name, sizeof name, "tcp%s", address + 3);
  CHILD_CHECK(!zmq_connect(socket, name));
  net_case_encode(&(net_header){.kind = WIRE_HELLO, .from = 9, .number = LARGEST}, NET_JOB, 0, frame);
  CHILD_CHECK(zmq_send(socket, frame, WIRE_HEADER, 0) == WIRE_HEADER);
  CHILD_CHECK(zmq_recv(socket, answer, sizeof answer, 0) == WIRE_HEADER); /* welcome */
  net_case_encode(&(net_header){.kind = 1, .from = 9}, NET_JOB, 100, frame);
  frame[WIRE_HEADER + 50] ^= 1;
  CHILD_CHECK(zmq_send(socket, frame, sizeof frame, 0) == (int)sizeof frame);
  CHILD_CHECK(zmq_recv(socket, answer, sizeof answer, 0) > WIRE_HEADER);
  CHILD_CHECK(!wire_decode(answer, WIRE_HEADER, LARGEST, &h, &job, &bytes) && h.kind == WIRE_REFUSED);
  zmq_close(socket);
  zmq_ctx_term(context);
}

/* Answers a request by something else than it says. */
static void damaged_answer(const char *address, int unused) {
  void *context = zmq_ctx_new(), *socket = zmq_socket(context, ZMQ_ROUTER);
  char name[NET_ADDRESS + 8];
  uint8_t id[8], frame[WIRE_HEADER + 100];
  snprintf(name, sizeof name, "tcp%s", address + 3);
  CHILD_CHECK(!zmq_bind(socket, name));
  for (int i = 0; i < 2; i++) { /* the hello, then the request */
    const int n = zmq_recv(socket, id, sizeof id, 0);
    CHILD_CHECK(n > 0 && zmq_recv(socket, frame, sizeof frame, 0) >= WIRE_HEADER);
    memset(frame, 0, sizeof frame);
    net_case_encode(&(net_header){.kind = i ? 2 : WIRE_WELCOME, .number = LARGEST}, NET_JOB, i ? 100 : 0, frame);
    frame[WIRE_HEADER + 7] = 64;
    CHILD_CHECK(zmq_send(socket, id, (size_t)n, ZMQ_SNDMORE) == n);
    CHILD_CHECK(zmq_send(socket, frame, WIRE_HEADER + (i ? 100 : 0), 0) > 0);
  }
  while (zmq_recv(socket, frame, sizeof frame, 0) >= 0) continue; /* until it is killed */
}

static void flips_in_zeromq(void **state) {
  char address[NET_ADDRESS];
  net_server *s;
  net_client *c;
  net_message m;
  net_stats stats;
  bool got = false;
  net_case_address("zmq", address);
  pid_t pid = net_case_start(damaged_request, address, 0);
  assert_ok(net_listen(address, &(net_options){.largest = LARGEST, .job = NET_JOB}, &s));
  while (!got) assert_ok(net_receive(s, 10, &m, &got));
  assert_int_equal(m.header.kind, NET_GONE);
  assert_int_equal(m.header.flags, NET_DAMAGED);
  net_case_join(pid);
  net_server_stats(s, &stats);
  assert_int_equal(stats.damaged, 1);
  net_server_close(s);
  net_case_address("zmq", address);
  pid = net_case_start(damaged_answer, address, 0);
  assert_ok(net_connect(address, &(net_options){.largest = LARGEST, .job = NET_JOB}, 10, &c));
  assert_ok(net_send(c, &(net_header){.kind = 1}, &(net_part){"abc", 3}, 1, 10));
  assert_fails(net_await(c, 10, &m), SHOAL_ERR_PEER, "damaged on its way");
  assert_true(net_client_gone(c));
  net_client_close(c);
  net_case_kill(pid);
}

int main(void) {
  alarm(110);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(flips_in_shared_memory),
      cmocka_unit_test(flips_in_tcp),
      cmocka_unit_test(flips_in_zeromq),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
