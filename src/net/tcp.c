#include "net/tcp.h"

const transport transport_tcp = {
    .scheme = "tcp://",
    .form = "tcp://HOST:PORT",
    .listen = tcp_listen,
    .connect = tcp_connect,
    .server_close = tcp_server_close,
    .client_close = tcp_client_close,
    .receive = tcp_receive,
    .answer = tcp_answer,
    .send = tcp_send,
    .await = tcp_await,
    .gone = tcp_gone,
    .limit = tcp_limit,
    .release_server = tcp_release_server,
    .release_client = tcp_release_client,
};
