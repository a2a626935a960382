/* Who may talk to a server: a thread that answers libzmq's question about each client's key (ZAP, ZeroMQ RFC 27). */
#ifndef SHOAL_NET_ZMQ_ZAP_H
#define SHOAL_NET_ZMQ_ZAP_H

#include "base/status.h"

typedef struct zmq_zap zmq_zap;

/* allowed: Z85 keys ended by NULL; copied. Must be started before the server's socket is bound. */
SHOAL_CHECKED shoal_status zap_start(void *context, const char *const *allowed, zmq_zap **out);
/* After zmq_ctx_shutdown and before zmq_ctx_term. NULL is fine. */
void zap_join(zmq_zap *z);

#endif
