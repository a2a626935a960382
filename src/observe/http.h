/* What the servers over HTTP have in common: where they listen, who may ask, short answers.
 *
 * 1. Without a token a server listens on a loopback address only, and answers only requests that name a loopback host, so
 *    that no other site's page can reach it through a name of its own.
 * 2. With a token each request must bring it, as "Authorization: Bearer TOKEN" or "?token=TOKEN". */
#ifndef SHOAL_OBSERVE_HTTP_H
#define SHOAL_OBSERVE_HTTP_H

#include "base/status.h"
#include "base/text.h"

#include <microhttpd.h>
#include <sys/socket.h>

/* token: NULL: none, and then only loopback addresses are good. */
SHOAL_CHECKED shoal_status http_read_address(const char *address, int port, const char *token,
                                             struct sockaddr_storage *out);
/* Whether the request may be answered; if not, *refusal is the code to answer with, and what is returned are the words. */
const char *http_refusal(struct MHD_Connection *c, const char *token, unsigned *refusal);
/* An argument of the request's address; NULL: it is not there. */
const char *http_argument(struct MHD_Connection *c, const char *name);
/* Words as plain text. */
enum MHD_Result http_answer_words(struct MHD_Connection *c, unsigned code, const char *words);
/* Takes the text. */
enum MHD_Result http_answer_text(struct MHD_Connection *c, unsigned code, text *body, const char *type);
/* The headers of an answer that no page is made of. */
void http_add_headers(struct MHD_Response *r, const char *type);
/* The port that a server was given; `asked` when it cannot be found out. */
int http_port(struct MHD_Daemon *server, int asked);

#endif
