/* shoal launch: a training job on several hosts, over ssh. */
#include "shoal/launch.h"

#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/say.h"

#include <string.h>
#include <unistd.h>

typedef struct {
  const char *hosts, *ssh, *program, *folder, *interface, *ports;
  double seconds;
  bool copy, agent, copied;
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
  shoal_status status = shoal_launch(&job, &options, exit_status);
  const int asked = __atomic_load_n(interrupt_flag(signals), __ATOMIC_ACQUIRE);
  if (asked && (!status || shoal_status_code(status) == SHOAL_ERR_CANCELLED)) *exit_status = 128 + asked;
  command_tell_end(hook, job.run_dir, NULL, *exit_status || !status ? *exit_status : EXIT_JOB_FAILED);
  interrupt_destroy(signals);
  return status;
}

static int run_launch(int argc, char **argv) {
  launch_flags f = {0};
  flags_parsed parsed;
  shoal_status status;
  int own = 0, exit_status = EXIT_GOOD;
  while (own < argc && strcmp(argv[own], "--")) own++;
  if (!command_parse(&command_launch, own, argv, &f, &parsed, &status)) return EXIT_GOOD;
  if (!status && parsed.count)
    status = status_make(SHOAL_ERR_ARGUMENT, "the job comes after --: %s launch --hosts a,b -- train lenet", called());
  if (!status && f.agent)
    status = shoal_launch_agent(STDIN_FILENO, STDOUT_FILENO, f.copied);
  else if (!status)
    status = launch(&f, own < argc ? argc - own - 1 : 0, argv + own + 1, &exit_status);
  if (!status) return exit_status;
  const int failed = command_fail(&command_launch, status);
  return exit_status ? exit_status : failed;
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
