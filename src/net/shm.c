#include "net/shm.h"

const transport transport_shm = {
    .scheme = "shm:",
    .form = "shm:/NAME",
    .listen = shm_listen,
    .connect = shm_connect,
    .server_close = shm_server_close,
    .client_close = shm_client_close,
    .receive = shm_receive,
    .answer = shm_answer,
    .send = shm_send,
    .await = shm_await,
    .gone = shm_gone,
    .limit = shm_limit,
    .hand_over = shm_hand_over,
    .take_rest = shm_take_rest,
    .release_server = shm_release_server,
    .release_client = shm_release_client,
};
