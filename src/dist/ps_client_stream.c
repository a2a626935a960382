/* Shards of a stream, as a worker asks for them: rules 13 and 18 to 20 of ps_protocol.h. */
#include "dist/ps_client_internal.h"

#include "base/mem.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>

shoal_status ps_client_ask(ps_client *c, float *const *parameters, ps_answer *out) {
  for (int s = 1; s < client_servers(c); s++) TRY(client_send(c, s, (net_header){.kind = PS_DONE}, NULL, NULL));
  for (int s = 1; s < client_servers(c); s++) {
    ps_head head;
    net_header answer;
    TRY(client_receive(c, s, PS_DONE, &(ps_cargo){0}, &head, &answer));
  }
  return ps_client_pull(c, parameters, out);
}

shoal_status ps_client_mark(ps_client *c, int64_t shard, int64_t batch, const char *position) {
  c->parts[0] = (net_part){position, strlen(position)};
  return client_send_parts(c, 0, (net_header){.kind = PS_MARK, .step = (uint64_t)batch, .number = (uint64_t)shard}, 1);
}

/* The answer is a text, with a head before it if `head` is not NULL; *header: the message's. *out is the caller's. */
static shoal_status receive_text(ps_client *c, int server, int kind, net_header *header, ps_head *head, char **out) {
  net_message m;
  TRY(client_await(c, server, kind, &m));
  const bool said = m.header.flags & (PS_REFUSED | PS_FENCED); /* why not, instead of an answer */
  const size_t before = head && !said ? sizeof *head : 0;
  const bool refused = said || m.header.kind != kind || m.bytes < before;
  if (m.header.flags & PS_FENCED) c->lost = c->fenced = true;
  if (!refused && head) memcpy(head, m.payload, sizeof *head);
  char *words = strndup((const char *)m.payload + (refused ? 0 : before), m.bytes - (refused ? 0 : before));
  *header = m.header;
  net_release_client(c->links[server], &m);
  if (!words) return status_no_memory();
  if (!refused) {
    *out = words;
    return NULL;
  }
  shoal_status status = status_make(SHOAL_ERR_PEER, "ps/%d refused: %s", server, words);
  free(words);
  return status;
}

shoal_status ps_client_find(ps_client *c, int64_t shard, int64_t *batch, int64_t *marked,
                            char position[SHOAL_POSITION_TEXT]) {
  for (int server = client_servers(c) - 1; server >= 0; server--) {
    char *words;
    net_header answer, h = {.kind = PS_FIND, .number = (uint64_t)shard, .step = (uint64_t)*batch};
    TRY(client_send(c, server, h, NULL, NULL));
    TRY(receive_text(c, server, PS_FIND, &answer, NULL, &words));
    *batch = MIN_OF(*batch, (int64_t)answer.step);
    *marked = (int64_t)answer.number;
    snprintf(position, SHOAL_POSITION_TEXT, "%s", words);
    free(words);
  }
  return NULL;
}

/* number: as in rule 25. */
static shoal_status hold(ps_client *c, int server, int number, ps_head *head, char **words) {
  net_header answer;
  TRY(client_send(c, server, (net_header){.kind = PS_HOLD, .number = (uint64_t)number}, NULL, NULL));
  return receive_text(c, server, PS_HOLD, &answer, head, words);
}

/* What the leader has, the others were sent before: it may only not have come to their turn. */
static shoal_status await_others(ps_client *c, const ps_head *leader) {
  const double until = clock_seconds() + c->options.task.deadline;
  for (int s = 1; s < client_servers(c);) {
    char *words;
    ps_head head;
    TRY(hold(c, s, 1, &head, &words));
    free(words);
    if (head.updates == leader->updates) {
      s++;
    } else if (head.updates > leader->updates || clock_seconds() > until) {
      return status_make(SHOAL_ERR_PEER, "ps/%d has made %lld updates, ps/0 %lld", s, (long long)head.updates,
                         (long long)leader->updates);
    } else {
      poll(NULL, 0, 1);
    }
  }
  return NULL;
}

shoal_status ps_client_pause(ps_client *c, ps_head *head, char **out) {
  char *words;
  TRY(hold(c, 0, 1, head, &words));
  shoal_status status = await_others(c, head);
  if (status)
    free(words);
  else
    *out = words;
  return status;
}

/* What the servers say follows each other, with an empty line in between. */
shoal_status ps_client_hold(ps_client *c, ps_head *head, char **out) {
  text all = {0};
  shoal_status status = NULL;
  for (int s = 0; s < client_servers(c) && !status; s++) {
    char *words;
    ps_head ignored;
    status = hold(c, s, 0, s ? &ignored : head, &words);
    if (status) break;
    text_add(&all, "%s%s", s ? "\n" : "", words);
    free(words);
  }
  if (!status && all.failed) status = status_no_memory();
  if (!status)
    *out = all.data;
  else
    text_fini(&all);
  return status;
}

/* With another number of servers than then, what the leader has done counts. */
void client_stream_words(const ps_client *c, const char *words, int server, net_part *out) {
  int parts = 1;
  for (const char *at = words; (at = strstr(at, "\n\n")); at += 2) parts++;
  const char *from = words;
  for (int s = 0; s < server && parts == client_servers(c); s++) from = strstr(from, "\n\n") + 2;
  const char *end = strstr(from, "\n\n");
  *out = (net_part){from, end ? (size_t)(end + 1 - from) : strlen(from)};
}
