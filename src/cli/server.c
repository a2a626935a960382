/* shoal server: a task that runs its part of graphs. */
#include "cli/command.h"
#include "shoal/cluster.h"
#include "shoal/placed.h"

typedef struct {
  const char *address, *cluster, *task, *keys;
  int64_t threads, job, client_memory;
  double client_seconds;
  bool insecure, quiet;
} server_flags;

#define AT(field) offsetof(server_flags, field)
static const flag_row server_table[] = {
    {"address", FLAG_TEXT, AT(address), "ADDRESS",
     "where to listen: tcp://HOST:PORT, or shm:/NAME for this machine alone", .marks = 0},
    {"cluster", FLAG_TEXT, AT(cluster), "FILE", "cluster description, as for shoal train, instead of an address",
     .complete = COMPLETE_FILE},
    {"task", FLAG_TEXT, AT(task), "JOB:N", "the task to run as, e.g. worker:0", .marks = 0},
    {"threads", FLAG_INT, AT(threads), "N", "compute threads", "all processors", .least = 1, .most = 1024},
    {"client-memory", FLAG_INT, AT(client_memory), "MB", "memory limit of a client for its graph, variables and values",
     "three quarters of this machine's", .least = 1, .most = 1e9},
    {"client-seconds", FLAG_NUMBER, AT(client_seconds), "SECONDS", "time limit of a run", "as long as the client says",
     .least = 0.001, .most = 1e9},
    {"keys", FLAG_TEXT, AT(keys), "DIR", "folder with server.key and the .pub files of the clients that may connect",
     .complete = COMPLETE_DIRECTORY},
    {"insecure", FLAG_BOOL, AT(insecure), NULL,
     "listen on the network without keys: anybody who can reach the port can use it", .marks = 0},
    {"job", FLAG_INT, AT(job), "N", "the job's number; clients of another are refused", .marks = FLAG_HIDDEN},
    {"quiet", FLAG_BOOL, AT(quiet), NULL, "print nothing", .marks = 0},
    {0},
};

static shoal_status serve(command_call *call) {
  const server_flags *f = call->flags;
  shoal_cluster *described = NULL;
  const char *address = f->address;
  uint64_t job = (uint64_t)f->job;
  if (!f->cluster == !f->address)
    return status_make(SHOAL_ERR_ARGUMENT, "expected --address ADDRESS, or --cluster FILE and --task JOB:N");
  if (f->cluster) {
    if (!f->task) return status_make(SHOAL_ERR_ARGUMENT, "--cluster needs --task JOB:N, which says which task this is");
    TRY(shoal_cluster_read(f->cluster, f->task, &described));
    address = shoal_cluster_address(described, shoal_cluster_role(described), shoal_cluster_index(described));
    job = shoal_cluster_id(described);
  }
  if (!f->quiet) {
    printf("serving at %s; Ctrl-C ends it\n", address);
    fflush(stdout);
  }
  shoal_status status = shoal_server_run(&(shoal_server_options){.address = address,
                                                                 .job = job,
                                                                 .threads = (int)f->threads,
                                                                 .keys = f->keys,
                                                                 .insecure = f->insecure,
                                                                 .stop = call->stop,
                                                                 .client_memory = (size_t)f->client_memory << 20,
                                                                 .client_seconds = f->client_seconds});
  shoal_cluster_destroy(described);
  call->ended_by_signal = true;
  return status;
}

const command command_server = {
    .name = "server",
    .summary = "serve a task of placed graphs",
    .details =
        "Serves sessions over a cluster (shoal run, shoal matmul,\n"
        "shoal_session_connect): each server is one task, holds the variables placed on\n"
        "it and runs the nodes placed on it. It serves any number of sessions at once,\n"
        "which take turns between operators, and ends with Ctrl-C or SIGTERM.\n"
        "\n"
        "Examples:\n"
        "  shoal server --address tcp://127.0.0.1:2222\n"
        "  shoal server --cluster cluster.json --task worker:1 --keys keys\n",
    .flags = server_table,
    .fields = sizeof(server_flags),
    .stopping = "Stopping.",
    .killed = "Killed.",
    .action = serve,
};
