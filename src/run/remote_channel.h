/* Lines of JSON between shoal_launch and its agent on another host; a message is an object of one member, named after its
 * kind.
 *
 *   agent                                             launcher
 *   {"hello": {"version", "host"}}              ->
 *                                               <-    {"prepare": {"tasks", "interface", "first", "last"}}
 *   {"ready": {"address", "ports": [...]}}      ->
 *                                               <-    {"start": {"folder", "cluster", "keys": {FILE: TEXT},
 *                                                                "tasks": [{"name", "argv", "worker"}], "threads"}}
 *   {"log": {"task", "line"}}                   ->
 *   {"ended": {"task", "status"}}               ->
 *                                               <-    {"stop": {"task"}}       SIGTERM
 *   {"error": {"text"}}                         ->                             and the agent ends
 *                                               <-    {"ping": {}}             each PING_SECONDS
 *
 * 1. The agent ends its tasks when its input ends, when it cannot write, or when it hears nothing for SILENCE_SECONDS.
 * 2. What a login shell prints before the agent speaks is passed over: lines that begin with no brace are no messages. */
#ifndef SHOAL_RUN_REMOTE_CHANNEL_H
#define SHOAL_RUN_REMOTE_CHANNEL_H

#include "base/status.h"
#include "base/text.h"

#include <jansson.h>
#include <stdbool.h>

#define PING_SECONDS 2.0
#define SILENCE_SECONDS 15.0

typedef struct {
  int in, out; /* -1: closed */
  text lines;  /* received and not yet taken */
  size_t taken;
  bool ended; /* nothing more will come */
} remote_channel;

/* Takes both descriptors. */
void remote_channel_init(remote_channel *c, int in, int out);
void remote_channel_fini(remote_channel *c);
/* Takes `body`, NULL where memory was short. SHOAL_ERR_PEER: the other end is gone, or takes nothing for a while. */
SHOAL_CHECKED shoal_status remote_channel_send(remote_channel *c, const char *kind, json_t *body);
/* The next message, the caller's to decref; *out NULL: none yet. */
SHOAL_CHECKED shoal_status remote_channel_next(remote_channel *c, json_t **out);
/* The body of a message of that kind, borrowed; NULL: it is of another. */
json_t *remote_body(const json_t *message, const char *kind);
/* A text for a message, whatever bytes it has. */
json_t *remote_text(const char *words);

#endif
