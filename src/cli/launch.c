/* shoal launch: a training job on several hosts, over ssh. shoal lab: the same on hosts that are made for it, here. */
#include "shoal/lab.h"

#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/say.h"

#include <errno.h>
#include <limits.h>
#include <unistd.h>

typedef struct {
  const char *hosts, *ssh, *program, *folder, *interface, *ports;
  double seconds;
  bool copy, agent, copied;
  int64_t n; /* hosts of a lab */
  const char *rate, *delay;
} launch_flags;

#define AT(field) offsetof(launch_flags, field)
static const flag_row launch_table[] = {
    {"hosts", FLAG_TEXT, AT(hosts), "A,B:2,...", "hosts as ssh knows them, and how many workers each has", "1 each",
     .marks = 0},
    {"ssh", FLAG_TEXT, AT(ssh), "COMMAND", "the ssh client, with flags of its own", "ssh", .marks = 0},
    {"program", FLAG_TEXT, AT(program), "PATH", "what to run on the hosts", "shoal, as the shell there finds it",
     .marks = 0},
    {"copy", FLAG_BOOL, AT(copy), NULL, "copy this program to each host, for this job alone", .marks = 0},
    {"folder", FLAG_TEXT, AT(folder), "DIR", "in which tasks run on the hosts", "this one, by the same path",
     .complete = COMPLETE_DIRECTORY},
    {"interface", FLAG_TEXT, AT(interface), "NAME", "of the hosts, for the tasks: eth1, or a network: 10.1.0.0/16",
     "that which ssh reached", .marks = 0},
    {"ports", FLAG_TEXT, AT(ports), "FIRST-LAST", "at which tasks may listen", "any that are free", .marks = 0},
    {"connect-seconds", FLAG_NUMBER, AT(seconds), "N", "to reach each host in", "10", .least = 2, .most = 3600},
    {"agent", FLAG_BOOL, AT(agent), NULL, "the far end, on a host", .marks = FLAG_HIDDEN},
    {"copied", FLAG_BOOL, AT(copied), NULL, "this program's file is to go", .marks = FLAG_HIDDEN},
    {0},
};
static const flag_row lab_table[] = {
    {"hosts", FLAG_INT, AT(n), "N", "how many hosts", "3", .least = 1, .most = 64},
    {"rate", FLAG_TEXT, AT(rate), "RATE", "of each link, each way, as tc writes it: 1.8gbit", "not limited",
     .marks = 0},
    {"delay", FLAG_TEXT, AT(delay), "TIME", "from host to host, one way: 100us, 2ms", "none added", .marks = 0},
    {0},
};

static void on_note(void *context, const char *line) { say(stderr, "%s\n", line); }

/* Worker 0 speaks for the job, as if it was here. */
static void on_log(void *context, const char *task, const char *host, const char *line) {
  if (!strcmp(task, "worker/0"))
    printf("%s\n", line);
  else
    say(stderr, "[%s %s] %s\n", task, host, line);
  fflush(stdout);
}

/* What comes after "--": "train" and its flags. */
static shoal_status parse_job(int argc, char **argv, shoal_job *job) {
  flags_parsed parsed;
  shoal_job_init(job, sizeof *job);
  if (!argc || strcmp(argv[0], "train"))
    return status_make(SHOAL_ERR_ARGUMENT, "expected -- train MODEL [flags] after the flags of the launch");
  TRY(flags_parse(shoal_job_settings(), argc - 1, argv + 1, job, &parsed));
  if (parsed.count != 1)
    return status_make(SHOAL_ERR_ARGUMENT, "one model is expected after train, but got %d", parsed.count);
  job->model = parsed.words[0];
  return NULL;
}

static shoal_status lab(const launch_flags *f, const shoal_job *job, const shoal_launch_options *o, int *exit_status) {
  shoal_lab *made;
  TRY(shoal_lab_create(&(shoal_lab_options){.hosts = (int)f->n, .rate = f->rate, .delay = f->delay}, &made));
  shoal_status status = shoal_lab_launch(made, job, o, exit_status);
  shoal_lab_destroy(made);
  return status;
}

static shoal_status launch(const launch_flags *f, int argc, char **argv, int *exit_status) {
  shoal_job job;
  TRY(parse_job(argc, argv, &job));
  const char *hook = job.on_end;
  job.on_end = NULL; /* here, not on the hosts */
  interrupt *signals;
  TRY(interrupt_create("Stopping after this step, with a checkpoint; Ctrl-C again ends it at once.",
                       "Ended at once; the hosts end their tasks by themselves.", &signals));
  const shoal_launch_options options = {.hosts = f->hosts,
                                        .ssh = f->ssh,
                                        .program = f->program,
                                        .copy = f->copy ? "/proc/self/exe" : NULL,
                                        .folder = f->folder,
                                        .interface = f->interface,
                                        .ports = f->ports,
                                        .connect_seconds = f->seconds,
                                        .stop = interrupt_flag(signals),
                                        .on_log = on_log,
                                        .on_note = on_note};
  shoal_status status = f->n ? lab(f, &job, &options, exit_status) : shoal_launch(&job, &options, exit_status);
  const int asked = __atomic_load_n(interrupt_flag(signals), __ATOMIC_ACQUIRE);
  if (asked && (!status || shoal_status_code(status) == SHOAL_ERR_CANCELLED)) *exit_status = 128 + asked;
  command_tell_end(hook, job.run_dir, NULL, *exit_status || !status ? *exit_status : EXIT_JOB_FAILED);
  interrupt_destroy(signals);
  return status;
}

static int run_either(const command *which, launch_flags f, int argc, char **argv) {
  flags_parsed parsed;
  shoal_status status;
  int own = 0, exit_status = EXIT_GOOD;
  while (own < argc && strcmp(argv[own], "--")) own++;
  if (!command_parse(which, own, argv, &f, &parsed, &status)) return EXIT_GOOD;
  if (!status && parsed.count)
    status = status_make(SHOAL_ERR_ARGUMENT, "the job comes after --: %s %s -- train lenet", called(), which->name);
  if (!status && f.agent)
    status = shoal_launch_agent(STDIN_FILENO, STDOUT_FILENO, f.copied);
  else if (!status)
    status = launch(&f, own < argc ? argc - own - 1 : 0, argv + own + 1, &exit_status);
  if (!status) return exit_status;
  const int failed = command_fail(which, status);
  return exit_status ? exit_status : failed;
}

static int run_launch(int argc, char **argv) { return run_either(&command_launch, (launch_flags){0}, argc, argv); }

static int run_lab(int argc, char **argv) {
  char self[PATH_MAX] = ""; /* agents run it under another name than their own */
  if (readlink("/proc/self/exe", self, sizeof self - 1) < 0)
    return command_fail(&command_lab, status_errno(errno, "/proc/self/exe"));
  return run_either(&command_lab, (launch_flags){.n = 3, .program = self}, argc, argv);
}

const command command_launch = {
    .name = "launch",
    .arguments = "--hosts A,B -- train MODEL",
    .summary = "train on several hosts over ssh",
    .details =
        "Starts parameter servers and workers on the hosts, through OpenSSH's client\n"
        "with its configuration and agent, which must not have to ask for anything.\n"
        "Checks that all hosts have the same version, makes keys for this job alone,\n"
        "picks addresses and ports, and shows what the tasks log. Ctrl-C saves a\n"
        "checkpoint and stops; when a host or a task is lost the job ends, and nothing\n"
        "is left running on any host. Worker 0, on the first host, has the run's\n"
        "folder. Data and model files must be at the same path everywhere.\n"
        "\n"
        "Examples:\n"
        "  shoal launch --hosts a,b,c -- train lenet\n"
        "  shoal launch --hosts a:4,b:4 --copy -- train softmax --ps 2 --mode async\n",
    .flags = launch_table,
    .run = run_launch,
};

const command command_lab = {
    .name = "lab",
    .arguments = "[flags] -- train MODEL",
    .summary = "train on hosts made of network namespaces, with links as slow as you say",
    .details =
        "Each host is a network namespace of this machine. Where workers and parameter\n"
        "servers together are as many as the hosts, each has a host to itself. All\n"
        "hosts share this machine's processors. Needs root and iproute2; nothing is\n"
        "left when it ends.\n"
        "\n"
        "Examples:\n"
        "  shoal lab --hosts 4 --rate 1.8gbit -- train lenet --workers 3\n"
        "  shoal lab --rate 1gbit --delay 1ms -- train lenet --strategy allreduce\n",
    .flags = lab_table,
    .run = run_lab,
};
