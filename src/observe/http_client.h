/* Requests over HTTP and HTTPS with a deadline, for the trackers: a connection each, answers in memory. */
#ifndef SHOAL_OBSERVE_HTTP_CLIENT_H
#define SHOAL_OBSERVE_HTTP_CLIENT_H

#include "base/status.h"
#include "base/text.h"

#include <stdbool.h>

/* "http[s]://HOST[:PORT][/PREFIX]" */
typedef struct {
  bool https;
  char host[256]; /* as it stands in the address */
  int port;
  char prefix[512]; /* "" or "/..." without a slash at its end */
} http_url;

/* ARGUMENT: what is expected. */
SHOAL_CHECKED shoal_status http_url_read(const char *words, http_url *out);

typedef struct {
  const char *method;  /* "GET", "POST" */
  const char *path;    /* behind the prefix */
  const char *headers; /* more of them, each ended by "\r\n"; NULL: none */
  const char *body;    /* JSON; NULL: none */
  const char *ca;      /* https: a file of certificates to trust besides the system's; NULL: none */
  double seconds;      /* for all of it */
} http_call;

/* *code: of the answer; body: what it holds is added to. PEER: nobody answered in time, or
 * not as HTTP says, or with a certificate that is not to be trusted. */
SHOAL_CHECKED shoal_status http_request(const http_url *url, const http_call *call, int *code, text *body);

#endif
