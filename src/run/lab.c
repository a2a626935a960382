/* A lab: hosts as network namespaces, a bridge in one more, and what shapes the links between. */
#include "shoal/lab.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/options.h"
#include "base/text.h"
#include "run/lab_relay.h"
#include "run/units.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define TOOL_SECONDS 20.0
#define HOSTS_LAB_MAX 64
#define NAMESPACES "/run/netns"
#define BURST_SECONDS 0.001 /* of the rate, which may pass at once: timers are no finer ... */
#define BURST_PACKETS 2     /* ... and at least so many packets: more would make short messages faster than the link */
#define MTU 1500
#define QUEUE_SECONDS 0.02 /* of the rate, which a link keeps until it drops ... */
#define QUEUE_MIN 1e6      /* ... and at least so many bytes, as a port of a switch does */

struct shoal_lab {
  int hosts;
  double rate, delay;      /* bits a second, seconds; 0: not limited, none */
  char (*names)[LAB_NAME]; /* [hosts] */
  char bridge[LAB_NAME];   /* the namespace of the bridge */
  bool made;               /* namespaces may be there */
  lab_relay *relay;        /* where the kernel cannot delay packets */
};

/* ---- options */

static shoal_status parse_options(const shoal_lab_options *o, shoal_lab *lab) {
  if (o->hosts < 1 || o->hosts > HOSTS_LAB_MAX)
    return status_make(SHOAL_ERR_ARGUMENT, "`hosts`: expected 1 to %d, not %d", HOSTS_LAB_MAX, o->hosts);
  lab->hosts = o->hosts;
  if (o->rate && (!units_rate(o->rate, &lab->rate) || lab->rate < 1e5))
    return status_make(SHOAL_ERR_ARGUMENT, "`rate`: expected a rate from 100kbit on, such as 1.8gbit, not '%s'",
                       o->rate);
  if (o->delay && (!units_time(o->delay, &lab->delay) || lab->delay > 10))
    return status_make(SHOAL_ERR_ARGUMENT, "`delay`: expected a time such as 100us or 2ms, at most 10s, not '%s'",
                       o->delay);
  return NULL;
}

/* ---- ip and tc */

/* In the child. Both are in a folder that is not in the path of every user. */
static void become_tool(char *const *argv, int in, int out) {
  char path[64];
  snprintf(path, sizeof path, "/usr/sbin/%s", argv[0]);
  if (dup2(in, STDIN_FILENO) < 0 || dup2(out, STDOUT_FILENO) < 0 || dup2(out, STDERR_FILENO) < 0) _exit(127);
  execvp(argv[0], argv);
  execv(path, argv);
  dprintf(STDERR_FILENO, "%s: %s (install iproute2)\n", argv[0], strerror(errno));
  _exit(127);
}

static int wait_for(pid_t pid) {
  const double end = clock_seconds() + TOOL_SECONDS;
  int status;
  while (waitpid(pid, &status, WNOHANG) != pid) {
    if (clock_seconds() > end) {
      kill(pid, SIGKILL);
      waitpid(pid, &status, 0);
      break;
    }
    usleep(500);
  }
  return status;
}

/* Runs a tool with these lines as its input; the last thing it said is the error. */
static shoal_status run_tool(char *const *argv, const text *lines) {
  if (lines->failed) return status_no_memory();
  char said[512] = "";
  const int in = memfd_create("shoal-lab-in", MFD_CLOEXEC), out = memfd_create("shoal-lab-out", MFD_CLOEXEC);
  shoal_status status = in < 0 || out < 0 ? status_errno(errno, "cannot start %s", argv[0]) : NULL;
  const ssize_t n = (ssize_t)lines->length;
  if (!status && (write(in, lines->data ? lines->data : "", (size_t)n) != n || lseek(in, 0, SEEK_SET)))
    status = status_errno(errno, "cannot write for %s", argv[0]);
  const pid_t pid = status ? -1 : fork();
  if (pid == 0) become_tool(argv, in, out);
  if (!status && pid < 0) status = status_errno(errno, "cannot start %s", argv[0]);
  const int ended = status ? 0 : wait_for(pid);
  if (!status && ended) {
    const ssize_t got = pread(out, said, sizeof said - 1, 0);
    said[got > 0 ? got : 0] = 0;
    said[strcspn(said, "\n")] = 0;
    status = status_make(SHOAL_ERR_SYSTEM, "%s: %s", argv[0], *said ? said : "failed without a word");
  }
  if (in >= 0) close(in);
  if (out >= 0) close(out);
  return status;
}

/* A list of commands of `ip` or `tc` in a namespace; NULL: in this one. */
static shoal_status run_batch(const char *tool, const char *namespace, const text *lines) {
  const char *const in[] = {tool, "-n", namespace, "-batch", "-", NULL}, *const here[] = {tool, "-batch", "-", NULL};
  return run_tool((char *const *)(namespace ? in : here), lines); /* exec does not change them */
}

/* ---- removing */

static void remove_namespaces(char (*names)[LAB_NAME], int n, const char *bridge) {
  text lines = {0};
  for (int i = 0; i < n; i++) text_add(&lines, "netns del %s\n", names[i]);
  if (bridge) text_add(&lines, "netns del %s\n", bridge);
  const char *const argv[] = {"ip", "-force", "-batch", "-", NULL};
  shoal_status_free(run_tool((char *const *)argv, &lines)); /* one that is not there is none to remove */
  text_fini(&lines);
}

/* Those of labs whose process is gone. */
static void remove_left_over(void) {
  DIR *dir = opendir(NAMESPACES);
  int pid, number;
  char rest[8];
  for (const struct dirent *e; dir && (e = readdir(dir));)
    if ((sscanf(e->d_name, "lab%d-%d", &pid, &number) == 2 || sscanf(e->d_name, "lab%d-%3s", &pid, rest) == 2) &&
        kill(pid, 0) && errno == ESRCH)
      remove_namespaces(NULL, 0, e->d_name);
  if (dir) closedir(dir);
}

void shoal_lab_destroy(shoal_lab *lab) {
  if (!lab) return;
  lab_relay_destroy(lab->relay);
  if (lab->made) remove_namespaces(lab->names, lab->hosts, lab->bridge);
  free(lab->names);
  free(lab);
}

/* ---- setting up */

static shoal_status make_namespaces(shoal_lab *lab) {
  text lines = {0};
  for (int i = 0; i < lab->hosts; i++) text_add(&lines, "netns add %s\n", lab->names[i]);
  text_add(&lines, "netns add %s\n", lab->bridge);
  lab->made = true;
  shoal_status status =
      status_wrap(run_batch("ip", NULL, &lines), "a lab needs network namespaces, which root may make");
  text_fini(&lines);
  return status;
}

static shoal_status join_hosts(shoal_lab *lab) {
  text lines = {0};
  for (int i = 0; i < lab->hosts; i++)
    text_add(&lines, "link add eth0 netns %s type veth peer name p%d netns %s\n", lab->names[i], i, lab->bridge);
  shoal_status status = run_batch("ip", NULL, &lines);
  text_fini(&lines);
  lines = (text){0};
  text_add(&lines, "link add br0 type bridge\nlink set br0 up\n");
  for (int i = 0; i < lab->hosts; i++) text_add(&lines, "link set p%d master br0\nlink set p%d up\n", i, i);
  if (!status) status = run_batch("ip", lab->bridge, &lines);
  text_fini(&lines);
  return status;
}

static int mtu_of(const shoal_lab *lab) { return lab->relay ? LAB_RELAY_MTU : MTU; }

static shoal_status give_addresses(shoal_lab *lab) {
  shoal_status status = NULL;
  for (int i = 0; i < lab->hosts && !status; i++) {
    text lines = {0};
    text_add(&lines, "addr add " LAB_ADDRESS "/24 dev eth0\nlink set lo up\nlink set eth0 up mtu %d\n", i + 1,
             mtu_of(lab));
    status = run_batch("ip", lab->names[i], &lines);
    text_fini(&lines);
  }
  return status;
}

/* The rate of one direction of a link. */
static void add_rate(const shoal_lab *lab, const char *device, const char *parent, text *lines) {
  const double burst = MAX_OF(lab->rate / 8 * BURST_SECONDS, (double)(BURST_PACKETS * mtu_of(lab)));
  if (lab->rate)
    text_add(lines, "qdisc add dev %s %s handle 2: tbf rate %.0fbit burst %.0f limit %.0f\n", device, parent, lab->rate,
             burst, burst + MAX_OF(lab->rate / 8 * QUEUE_SECONDS, QUEUE_MIN));
}

/* Both ways: what a host sends leaves by its eth0, what it receives by the bridge's end of its link. The delay is added
 * where it leaves. */
static shoal_status shape(shoal_lab *lab, bool delay) {
  text lines = {0};
  shoal_status status = NULL;
  for (int i = 0; i < lab->hosts && !lab->relay; i++) {
    char device[16];
    snprintf(device, sizeof device, "p%d", i);
    add_rate(lab, device, "root", &lines);
  }
  if (lines.length) status = run_batch("tc", lab->bridge, &lines);
  for (int i = 0; i < lab->hosts && !status; i++) {
    text_fini(&lines);
    lines = (text){0};
    if (delay)
      text_add(&lines, "qdisc add dev eth0 root handle 1: netem delay %.0fus limit 100000\n", 1e6 * lab->delay);
    add_rate(lab, "eth0", delay ? "parent 1:" : "root", &lines);
    if (lines.length) status = run_batch("tc", lab->names[i], &lines);
  }
  text_fini(&lines);
  return status;
}

/* Whether this kernel delays packets by itself. */
static bool has_netem(const shoal_lab *lab) {
  text lines = {0};
  text_add(&lines, "qdisc add dev lo root netem delay 1ms\nqdisc del dev lo root\n");
  shoal_status status = run_batch("tc", lab->names[0], &lines);
  text_fini(&lines);
  const bool has = !status;
  shoal_status_free(status);
  return has;
}

static shoal_status set_up(shoal_lab *lab) {
  remove_left_over();
  TRY(make_namespaces(lab));
  const bool delay = lab->delay > 0, relayed = delay && !has_netem(lab);
  if (relayed)
    TRY(lab_relay_create(lab->names, lab->hosts, lab->rate, lab->delay, &lab->relay));
  else
    TRY(join_hosts(lab));
  TRY(give_addresses(lab));
  return shape(lab, delay && !relayed);
}

shoal_status shoal_lab_create(const shoal_lab_options *options, shoal_lab **out) {
  shoal_lab_options o;
  TRY(OPTIONS_TAKE(&o, options));
  shoal_lab *lab = calloc(1, sizeof *lab);
  if (!lab) return status_no_memory();
  shoal_status status = parse_options(&o, lab);
  if (!status) {
    lab->names = calloc((size_t)lab->hosts, sizeof *lab->names);
    if (!lab->names) status = status_no_memory();
  }
  for (int i = 0; i < lab->hosts && !status; i++)
    snprintf(lab->names[i], sizeof lab->names[i], "lab%d-%d", (int)getpid(), i + 1);
  snprintf(lab->bridge, sizeof lab->bridge, "lab%d-net", (int)getpid());
  if (!status) status = set_up(lab);
  if (status)
    shoal_lab_destroy(lab);
  else
    *out = lab;
  return status;
}

const char *shoal_lab_host(const shoal_lab *lab, int i) { return i >= 0 && i < lab->hosts ? lab->names[i] : NULL; }

/* ---- a job there */

/* "lab7-1:2,lab7-2:1,lab7-3:0" */
static void write_hosts(const shoal_lab *lab, const shoal_job *job, text *out) {
  const bool ranks = job->strategy && !strcmp(job->strategy, "allreduce");
  const int64_t servers = ranks ? 0 : MAX_OF(job->ps, 1) * (1 + job->replicas);
  const bool apart = lab->hosts > servers && (!job->workers || job->workers + servers == lab->hosts);
  const int64_t homes = apart ? lab->hosts - servers : lab->hosts, workers = job->workers ? job->workers : homes;
  for (int i = 0; i < lab->hosts; i++) {
    const int64_t slots = i < homes ? workers / homes + (i < workers % homes) : 0;
    text_add(out, "%s%s:%lld", i ? "," : "", lab->names[i], (long long)slots);
  }
}

shoal_status shoal_lab_launch(const shoal_lab *lab, const shoal_job *job, const shoal_launch_options *options,
                              int *exit_status) {
  shoal_launch_options o;
  text hosts = {0};
  TRY(OPTIONS_TAKE(&o, options));
  write_hosts(lab, job, &hosts);
  o.hosts = hosts.data;
  o.interface = "eth0";
  o.namespaces = true;
  shoal_status status = hosts.failed ? status_no_memory() : shoal_launch(job, &o, exit_status);
  text_fini(&hosts);
  return status;
}
