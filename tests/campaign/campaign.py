#!/usr/bin/env python3
"""Random faults in small training jobs: each must finish, or end with a named cause and resume.

Every trial is one job with one or two faults, all drawn from the trial's seed, which is printed: --replay SEED runs it again.
The faults hit processes (killed, stopped for a while or for good, SIGTERM, SIGINT), connections (cut, slowed, garbage; where
network namespaces can be made), files (none may grow beyond a few kB) and descriptors; the number of servers or of ranks is
changed (shoal scale). "allreduce" is by MPI; "elastic" is an all-reduce over our own connections. A trial is judged by

  ledger     a job that says it is finished has used each row exactly once an epoch
  bits       with --deterministic the model is the undisturbed one's, or the summary says that it may not be
  status     exit 0 means finished; 130 and 143 need a signal; a finished result is never lost again
  words      whatever else ends the job is said on standard error
  elastic    one rank that is killed, stopped or leaves while it trains does not end an all-reduce over our own connections
  resume     a job that ended so, or was killed, is resumed without faults and then must finish by the same rules
  orphans    no process is left; leftovers: no temporary file, no shared memory
  time       30 s without a step or a row more and without an end are a hang, whatever is written meanwhile; so are 5 minutes
             (these alone where no file may grow)

docs/reliability.md has the results of a long campaign."""
import argparse
import collections
import concurrent.futures
import dataclasses
import itertools
import json
import os
import pathlib
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
os.environ.setdefault("SHOAL_ROOT", str(HERE.parents[1]))
os.environ.setdefault("SHOAL_BIN", str(HERE.parents[1] / "build" / "shoal"))
sys.path.insert(0, str(HERE.parent / "cli"))
import support  # noqa: E402

HANG_SECONDS, TRIAL_SECONDS = 30, 300
DENSE_ROWS, SPARSE_ROWS, FEATURES = 512, 4000, "40000"
TABLES_ROWS, TABLES_FEATURES = 1600, "2000"
STANDARD = ["--threads", "1", "--quiet"]
DEADLINE, HEARTBEAT = ["--deadline", "8"], ["--heartbeat", "2"]
MODES = {
    "single": ["--strategy", "single"],
    "mirrored": ["--strategy", "mirrored", "--workers", "2"],
    "allreduce": ["--strategy", "allreduce", "--workers", "2", "--transport", "mpi"],
    "elastic": ["--strategy", "allreduce", "--deterministic"],
    "sync": ["--mode", "sync"],
    "async": ["--mode", "async", "--lr", "0.1"],
    "stale": ["--mode", "async", "--staleness", "3", "--lr", "0.1"],
    "deterministic": ["--deterministic"],
}
RANKS = ("allreduce", "elastic")
BITS = ("deterministic", "elastic")
SERVED = ("sync", "async", "stale", "deterministic")
HAS_MPI = shutil.which("mpirun") and (pathlib.Path(support.SHOAL).parent / "shoal-mpi.so").exists()
BAD_WORDS = re.compile(r"Assertion|Segmentation|Sanitizer|\(null\)|core dumped|corrupt")
MPIRUN_CRASH = re.compile(r"^\[\S+:(\d+)\] \[ *\d+\] \S*mpirun\(", re.M)


def own_words(said):
    """Without what mpirun says of a crash of its own, as when it lacks descriptors: that is not ours, and no rank's."""
    pids = set(MPIRUN_CRASH.findall(said))
    return "\n".join(line for line in said.split("\n") if not any(f":{pid}] " in line for pid in pids))


@dataclasses.dataclass
class Fault:
    what: str      # kill, pause, stop, term, int, files, descriptors, cut, slow, garbage, scale
    role: str      # chief, worker, server, rank, evaluator, launcher; network; job; servers, workers (of scale)
    training: bool # once it trains, otherwise from the start on
    delay: float
    lasts: float

    def __str__(self):
        when = f"{self.delay:.2f} s after {'training began' if self.training else 'the start'}"
        return f"{self.what} {self.role} {when}" + (f" for {self.lasts:.2f} s" if self.what in ("pause", "cut", "slow") else "")


@dataclasses.dataclass
class Trial:
    seed: int
    mode: str
    model: str
    described: bool
    transport: str
    workers: int
    servers: int
    replicas: int
    evaluator: bool
    faults: list
    problems: list = dataclasses.field(default_factory=list)
    ended: str = ""
    seconds: float = 0

    def __str__(self):
        elastic = f" {self.workers} {self.transport}" if self.mode == "elastic" else ""
        where = elastic if self.mode not in SERVED else (f" {self.workers}+{self.servers} " + (
            "described tcp" if self.described else self.transport) + (" replicas" if self.replicas else "") + (
                " evaluator" if self.evaluator else ""))
        return f"{self.mode} {self.model}{where}: {'; '.join(map(str, self.faults))}"


def has_namespaces():
    return not os.geteuid() and all(map(shutil.which, ("unshare", "nsenter", "ip", "tc"))) and not subprocess.run(
        ["unshare", "-n", "true"], stderr=subprocess.DEVNULL).returncode


def draw(seed, namespaces, quick=False, only=None):
    """The trial of that seed."""
    r = random.Random(seed)
    modes = [m for m in MODES if (m != "allreduce" or (HAS_MPI and not quick)) and m in (only or MODES)]
    mode = r.choices(modes, [3 if m in SERVED else 1 for m in modes])[0]
    served, elastic = mode in SERVED, mode == "elastic"
    described = served and namespaces and not quick and r.random() < 0.3
    model = "sparse" if mode in ("single", *SERVED) and r.random() < 0.35 else "dense"
    model = "tables" if model == "sparse" and r.random() < 0.4 else model
    t = Trial(seed, mode, model, described, r.choice(["shm", "shm", "tls", "tls" if elastic else "zmq"]), r.choice([2, 2, 3]),
              r.choice([1, 1, 2]), int(served and r.random() < 0.3),
              served and not described and model == "dense" and r.random() < 0.2, [])
    roles = ["chief", "worker", "server"] if served else ["rank", "rank", "launcher"] if mode in RANKS else ["launcher"]
    roles += ["launcher"] if served and not described else []
    roles += ["evaluator"] if t.evaluator else []
    for _ in range(1 if r.random() < 0.7 else 2):
        kinds = ["kill"] * 4 + ["pause"] * 2 + ["stop", "term", "int"] + ([] if t.faults else ["files", "descriptors"])
        kinds += ["cut", "slow", "garbage"] * 2 if described else ["scale"] * 2 if served or elastic else []
        what = r.choice(kinds)
        role = "network" if what in ("cut", "slow", "garbage") else "job" if what in ("files", "descriptors") else r.choice(roles)
        role = role if what != "scale" else "workers" if elastic else "servers"
        if what == "stop" and role == "launcher":
            what = "pause" # whoever stops the command itself has stopped it
        t.faults.append(Fault(what, role, r.random() < 0.6, r.uniform(0, 0.8), r.uniform(0.1, 2.5)))
    return t


class Data:
    """Made once for all trials; results of jobs without faults, by their settings."""

    def __init__(self, folder):
        self.folder = folder
        self.lock = threading.Lock()
        self.models = {}
        support.make_data(folder / "bars", DENSE_ROWS)
        self.sparse = self.clicks("clicks", "tfrecords*", SPARSE_ROWS, FEATURES)
        self.tables = self.clicks("fields", "clicks*", TABLES_ROWS, TABLES_FEATURES, "--as", "tsv")

    def clicks(self, name, pattern, rows, features, *flags):
        """The flags for so many rows of a click log and its test rows."""
        to = self.folder / name
        subprocess.run([support.SHOAL, "data", "generate", "criteo", "--rows", str(rows * 5 // 4), "--files", "5", "--features",
                        features, *flags, "--out", str(to), "--quiet"], check=True, stdout=subprocess.DEVNULL)
        test = to / json.loads((to / "truth.json").read_text())["test_file"]
        files = ",".join(str(p) for p in sorted(to.glob(pattern)) if p != test)
        return ["--data", files, "--test-data", str(test), "--features", features, "--batch-size", "20", "--shuffle-rows", "300",
                "--stream", "--checkpoint-every", "200"]

    def flags(self, t):
        """(model and flags, rows, epochs)"""
        if t.model == "sparse":
            epochs = 12 if t.mode in SERVED else 60
            return ["sparse-lr", *self.sparse, "--epochs", str(epochs)], SPARSE_ROWS, epochs
        if t.model == "tables": # of rows wider than one number, and dense layers
            epochs = 25 if t.mode in SERVED else 80
            return ["deepfm", "--set", "hidden=8", *self.tables, "--epochs", str(epochs)], TABLES_ROWS, epochs
        epochs = {"single": 2000, "mirrored": 400, "allreduce": 400, "elastic": 700, "deterministic": 250}.get(t.mode, 500)
        return ["softmax", "--data", str(self.folder / "bars"), "--batch-size", "16", "--epochs", str(epochs),
                "--checkpoint-every", "300"], DENSE_ROWS, epochs

    def undisturbed(self, t):
        """The bits of the model that the same settings give."""
        key = (t.mode, t.model, t.workers)
        with self.lock:
            if key not in self.models:
                run = self.folder / "-".join(["undisturbed", *map(str, key)])
                words, _, _ = self.flags(t)
                servers = ["--ps", "1"] if t.mode in SERVED else []
                subprocess.run([support.SHOAL, "train", *words, *STANDARD, *MODES[t.mode], "--workers", str(t.workers),
                                *servers, "--run-dir", str(run)], check=True, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)
                self.models[key] = (run / "model.safetensors").read_bytes()
            return self.models[key]


def processes():
    """{pid: (words, parent)} of this machine."""
    found = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            words = pathlib.Path(f"/proc/{entry}/cmdline").read_bytes().decode(errors="replace").split("\0")
            rest = pathlib.Path(f"/proc/{entry}/stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if rest[0] != "Z":
            found[int(entry)] = (words, int(rest[1]))
    return found


class Progress:
    """How far a job is by what it reports: lines that say the same again are none. After a task was started again, the job may
    go on from an earlier step."""

    def __init__(self, path):
        self.path, self.file, self.at, self.rest = path, None, 0, b""
        self.tasks = {}  # task -> (steps, rows), as it said last
        self.farthest, self.returns, self.tests = (0, 0), 0, 0

    def take(self, line):
        said = json.loads(line)
        self.tests += said.get("kind") == "test"
        if said.get("kind") not in ("step", "epoch"):
            return
        now = (said["step"], said["examples"])
        self.returns += now < self.tasks.get(said.get("task"), now)
        self.tasks[said.get("task")] = now
        self.farthest = max(self.farthest, now)

    def read(self):
        try:
            with open(self.path, "rb") as f:
                about = os.fstat(f.fileno())
                if about.st_ino != self.file or about.st_size < self.at: # a run that is resumed writes it anew
                    self.file, self.at, self.rest = about.st_ino, 0, b""
                f.seek(self.at)
                new = f.read()
        except OSError:
            new = b""
        self.at += len(new)
        *lines, self.rest = (self.rest + new).split(b"\n")
        for line in lines:
            try:
                self.take(line)
            except (ValueError, KeyError):
                pass # cut off where a task was killed
        return self.farthest, self.returns, self.tests


class Job:
    """The processes of one trial."""

    def __init__(self, trial, data, folder):
        self.t, self.data, self.folder = trial, data, folder
        self.run = folder / "run"
        self.words, self.rows, self.epochs = data.flags(trial)
        self.reported = Progress(self.run / "metrics.jsonl")
        self.members = {}     # described: task -> Popen; otherwise "launcher" -> Popen
        self.errors = {}      # files of standard error, in the order they began
        self.space = None     # the process that holds the network namespace
        self.signalled = set()
        self.pids = set()     # of all processes that were seen
        self.told = set()     # who received SIGINT or SIGTERM
        self.killed_launcher = self.at_once = self.unfit = self.survives = False

    # -- starting

    def begin(self, name, *flags, limits=()):
        def prepare():
            for which, most in limits:
                resource.setrlimit(which, (most, most))
            if limits:
                signal.signal(signal.SIGXFSZ, signal.SIG_IGN) # as programs find it that were started by Python, too
        error = self.folder / f"stderr-{len(self.errors)}-{name.replace(':', '-')}"
        self.errors[error] = name
        words = [support.SHOAL, "train", *self.words, *STANDARD, *map(str, flags), "--run-dir", str(self.run)]
        if self.space:
            words = ["nsenter", f"--net=/proc/{self.space.pid}/ns/net", *words]
        with open(error, "wb") as to:
            self.members[name] = subprocess.Popen(words, cwd=self.folder, stdout=subprocess.DEVNULL, stderr=to,
                                                  preexec_fn=prepare if limits else None)
        self.pids.add(self.members[name].pid)

    def settings(self):
        t = self.t
        served = DEADLINE if t.mode == "allreduce" else [*DEADLINE, *HEARTBEAT] if t.mode in (*SERVED, "elastic") else []
        more = ["--evaluator"] if t.evaluator else []
        if t.mode in SERVED and not t.described:
            more += ["--workers", t.workers, "--ps", t.servers, "--transport", t.transport]
        more += ["--replicas", 1] if t.replicas else []
        if t.mode == "elastic":
            more += ["--workers", t.workers, "--transport", t.transport]
        return [*MODES[t.mode], *served, *more]

    def start(self):
        limits = []
        for f in self.t.faults:
            if f.what == "files":
                limits.append((resource.RLIMIT_FSIZE, 1024 * random.Random(self.t.seed).choice([4, 16, 33, 48])))
            if f.what == "descriptors":
                limits.append((resource.RLIMIT_NOFILE, random.Random(self.t.seed).randrange(8, 40)))
        if not self.t.described:
            return self.begin("launcher", *self.settings(), limits=limits)
        self.open_space()
        ports = random.Random(self.t.seed).sample(range(20000, 30000), self.t.workers + self.servers())
        address = [f"127.0.0.1:{p}" for p in ports]
        self.ports = ports[self.t.workers:]
        cluster = {"worker": address[:self.t.workers], "ps": address[self.t.workers:]}
        (self.folder / "cluster.json").write_text(json.dumps({"cluster": cluster}))
        for role in cluster:
            for i in range(len(cluster[role])):
                self.begin_member(f"{role}:{i}", limits)

    def servers(self):
        """And their backups."""
        return self.t.servers * (1 + self.t.replicas)

    def begin_member(self, task, limits=(), *more):
        self.begin(task, *self.settings(), "--cluster", "cluster.json", "--task", task, "--max-restarts", "2", *more, limits=limits)

    def open_space(self):
        self.space = subprocess.Popen(["unshare", "-n", "sh", "-c", "ip link set lo up; exec sleep 1000"])
        own = os.readlink("/proc/self/ns/net")
        for _ in range(200):
            if os.readlink(f"/proc/{self.space.pid}/ns/net") != own:
                break
            time.sleep(0.01)
        self.inside("ip", "link", "set", "lo", "up")

    def inside(self, *words):
        subprocess.run(["nsenter", f"--net=/proc/{self.space.pid}/ns/net", *words], stderr=subprocess.DEVNULL, check=False)

    # -- who is there

    def tasks(self):
        """{task: pid}, tasks as "worker:0", "ps:1", "evaluator:0", "rank:0", "launcher"."""
        found = {name: p.pid for name, p in self.members.items() if p.poll() is None}
        mine = str(self.run)
        for pid, (words, _) in processes().items():
            if "--task" in words and str(self.run / "logs" / "job.json") in words:
                found[words[words.index("--task") + 1]] = pid
            elif self.t.mode in RANKS and mine in words and "mpirun" not in words[0] and pid != found.get("launcher"):
                try:
                    surroundings = pathlib.Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace")
                except OSError:
                    continue
                place = re.search(r"\b(?:OMPI_COMM_WORLD_RANK|SHOAL_RANK)=(\d+)", surroundings)
                if place:
                    found[f"rank:{place.group(1)}"] = pid
        self.pids.update(found.values())
        return found

    def victim(self, role, r):
        ranks = self.t.workers if self.t.mode == "elastic" else 2
        names = {"chief": ["worker:0"], "server": [f"ps:{r.randrange(self.servers())}"], "evaluator": ["evaluator:0"],
                 "worker": [f"worker:{r.randrange(1, self.t.workers)}"], "rank": [f"rank:{r.randrange(ranks)}"],
                 "launcher": ["launcher"]}[role]
        tasks = self.tasks()
        return next(((n, tasks[n]) for n in names if n in tasks), (names[0], None))

    def over(self):
        """Whether the job has ended: the launcher, or all tasks of a described cluster."""
        return all(p.poll() is not None for p in self.members.values())

    # -- faults

    def inject(self, f, r):
        end = time.monotonic() + 20
        while f.training and not support.has_begun(self.run) and not self.over() and time.monotonic() < end:
            time.sleep(0.01)
        time.sleep(f.delay)
        if f.role == "network":
            return self.disturb(f, r)
        if f.role == "job":
            return None
        if f.what == "scale": # it may be over, or end meanwhile
            flag, now = ("--ps", self.t.servers) if f.role == "servers" else ("--workers", self.t.workers)
            number = r.choice([n for n in (1, 2, 3) if n != now])
            return subprocess.run([support.SHOAL, "scale", str(self.run), flag, str(number)], stdout=subprocess.DEVNULL,
                                  stderr=subprocess.DEVNULL, check=False)
        name, pid = self.victim(f.role, r)
        if not pid:
            return None
        numbers = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP, "pause": signal.SIGSTOP, "term": signal.SIGTERM,
                   "int": signal.SIGINT}
        self.signalled.add((f.what, f.role))
        stops_all = name == "rank:0" and f.what in ("term", "int") # rank 0 has the others stop, too
        self.survives = self.t.mode == "elastic" and len(self.t.faults) == 1 and f.training and f.role == "rank" and not stops_all
        self.killed_launcher |= name == "launcher" and f.what == "kill"
        self.note_signal(name, f.what)
        self.send(pid, numbers[f.what])
        if f.what == "pause":
            time.sleep(f.lasts)
            self.send(pid, signal.SIGCONT)
        if self.t.described and f.what == "kill" and r.random() < 0.8: # somebody starts it again
            self.members[name].wait()
            time.sleep(0.2)
            if not self.over():
                self.begin_member(name, (), *(["--resume"] if name == "worker:0" and (self.run / "settings.json").exists() else []))
        if self.t.described and f.what == "stop": # somebody ends it at last
            time.sleep(6)
            self.send(pid, signal.SIGKILL)

    def note_signal(self, name, what):
        """The second one ends a process at once, as people expect it: what it was just writing stays until it is resumed."""
        if what in ("term", "int"):
            self.at_once |= name in self.told and (name == "launcher" or self.t.described)
            self.told.add(name)

    @staticmethod
    def send(pid, number):
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass

    def disturb(self, f, r):
        if f.what == "cut":
            self.inside("ip", "link", "set", "lo", "down")
            time.sleep(f.lasts)
            self.inside("ip", "link", "set", "lo", "up")
        elif f.what == "slow":
            self.inside("tc", "qdisc", "add", "dev", "lo", "root", "netem", "delay", "20ms", "loss", "2%")
            time.sleep(f.lasts)
            self.inside("tc", "qdisc", "del", "dev", "lo", "root")
        else:
            self.inside(sys.executable, str(HERE / "garbage.py"), str(r.choice(self.ports)), str(r.randrange(1 << 30)))

    # -- the end

    def progress(self):
        try:
            newest = max((p.name for p in (self.run / "checkpoints").iterdir()), default="")
        except OSError:
            newest = ""
        return self.reported.read(), newest, [p.poll() for p in self.members.values()]

    def wait(self, seconds=HANG_SECONDS, most=TRIAL_SECONDS):
        """False: it hangs."""
        seen, begun = None, time.monotonic()
        since = begun
        if any(f.what == "files" for f in self.t.faults): # nor does what it reports grow
            seconds = most
        while not self.over():
            now = self.progress()
            if now != seen:
                seen, since = now, time.monotonic()
            if time.monotonic() - since > seconds or time.monotonic() - begun > most:
                return False
            time.sleep(0.05)
        return True

    def said(self):
        return "".join(p.read_text(errors="replace") for p in self.errors)

    def summary(self):
        try:
            return json.loads((self.run / "summary.json").read_text())
        except (OSError, ValueError):
            return {}

    def statuses(self):
        return {name: p.returncode for name, p in self.members.items()}

    def put_away(self):
        for p in self.members.values():
            if p.poll() is None:
                p.kill()
            p.wait()
        for pid in self.orphans():
            self.send(pid, signal.SIGKILL)
        if self.space:
            self.space.kill()
            self.space.wait()

    def orphans(self):
        return [pid for pid, (words, _) in processes().items()
                if any(w.startswith(str(self.run)) for w in words) and pid != os.getpid()]


class Judge:
    def __init__(self, job, data):
        self.job, self.t, self.data = job, job.t, data

    def blame(self, kind, words):
        self.t.problems.append((kind, words))

    def result(self):
        """Of a job that says it has finished."""
        s = self.job.summary()
        if s.get("status") != "finished":
            return self.blame("status", f"exit 0, but the summary says {s.get('status')}: {s.get('error')}")
        wanted = self.job.rows * self.job.epochs
        if s["examples"] != wanted:
            self.blame("ledger", f"{s['examples']} of {wanted} rows")
        if self.t.mode in BITS and not s.get("uneven_updates"):
            if (self.job.run / "model.safetensors").read_bytes() != self.data.undisturbed(self.t):
                self.blame("bits", "the model differs from the undisturbed one")
        if not (self.job.run / "model.safetensors").exists():
            self.blame("ledger", "no model.safetensors")
        return None

    def ending(self):
        """How it ended; True if it has finished."""
        job, said = self.job, self.job.said()
        status = job.statuses()
        main = status.get("launcher", status.get("worker:0"))
        self.t.ended += ("then " if self.t.ended else "") + f"exit {main}"
        if main == 2:
            self.blame("campaign", f"wrong usage: {said[-300:]}")
        bad = BAD_WORDS.search(own_words(said))
        if bad:
            self.blame("words", bad.group(0))
        if main == 0:
            self.result()
            return True
        if job.survives:
            self.blame("elastic", f"the job ended with a rank: {said[-300:]}")
        asked = any(what in ("term", "int") for what, _ in job.signalled)
        if main in (130, 143) and not asked:
            self.blame("status", f"exit {main} without a signal")
        if main is not None and main < 0 and not (job.killed_launcher or self.t.described) and not (
                asked and -main in (signal.SIGTERM, signal.SIGINT)):
            self.blame("status", f"ended by signal {-main}")
        if main is not None and main > 0 and not said.strip():
            self.blame("silent", f"exit {main} without a word")
        return False

    def traces(self, before):
        job = self.job
        end = time.monotonic() + 5
        while job.orphans() and time.monotonic() < end:
            time.sleep(0.05)
        left = job.orphans()
        if left:
            self.blame("orphans", str({p: processes().get(p, ("",))[0] for p in left})[:300])
        temporary = [p.name for p in job.run.rglob("*.tmp")] if job.run.exists() else []
        if temporary and not self.job.unfit:
            self.blame("leftovers", f"{temporary}")
        shared = {n for n in os.listdir("/dev/shm") if n.startswith("shoal")} - before
        shared = {n for n in shared if (n.split("-") + ["", ""])[2] in map(str, job.pids)} # not another job's
        if shared and not self.job.unfit:
            self.blame("leftovers", f"/dev/shm: {sorted(shared)}")


def resume(job, judge):
    """After a failure, an interruption or a death: without faults it must finish."""
    t = job.t
    job.members, job.signalled, job.killed_launcher, job.survives = {}, set(), False, False
    kept = (job.run / "settings.json").exists()
    if not t.described:
        job.begin("launcher", *([] if kept else job.settings()), "--resume")
    else:
        for task in [f"worker:{i}" for i in range(t.workers)] + [f"ps:{i}" for i in range(job.servers())]:
            job.begin_member(task, (), *(["--resume"] if task == "worker:0" else []))
    if not job.wait():
        judge.blame("hang", "the resumed job: " + job.said()[-300:])
        return
    t.ended += ", resumed, "
    judge.job.unfit = False
    if not judge.ending():
        judge.blame("resume", "the resumed job ended otherwise: " + job.said()[-400:])


def run_trial(t, data):
    folder = pathlib.Path(tempfile.mkdtemp(prefix=f"trial-{t.seed}-", dir=data.folder))
    job = Job(t, data, folder)
    judge = Judge(job, data)
    before = set(os.listdir("/dev/shm"))
    begun = time.monotonic()
    r = random.Random(t.seed + 1)
    try:
        job.start()
        injectors = [threading.Thread(target=job.inject, args=(f, random.Random(r.random()))) for f in t.faults]
        for i in injectors:
            i.start()
        if job.wait():
            for i in injectors:
                i.join()
            job.wait()
            finished = judge.ending()
            killed = ("files", "descriptors", "kill", *(["stop"] if t.described else []))
            job.unfit = job.killed_launcher or job.at_once or any(f.what in killed for f in t.faults)
            judge.traces(before)
            if not finished:
                resume(job, judge)
                judge.traces(before)
        else:
            t.ended = "hang"
            judge.blame("hang", f"{job.statuses()}, tasks {job.tasks()}: {job.said()[-300:]}")
            for i in injectors:
                i.join()
    except Exception as wrong: # of the campaign itself
        judge.blame("campaign", repr(wrong))
    finally:
        job.put_away()
    t.seconds = time.monotonic() - begun
    if not t.problems:
        shutil.rmtree(folder, ignore_errors=True)
    return t


KINDS = ["hang", "ledger", "bits", "elastic", "status", "silent", "words", "resume", "orphans", "leftovers", "campaign"]


def table(trials):
    rows = collections.defaultdict(lambda: [0, 0, 0, collections.Counter()])
    for t in trials:
        for f in t.faults:
            row = rows[f"{f.what} {f.role}"]
            row[0] += 1
            row[1] += t.ended == "exit 0"
            row[2] += "resumed" in t.ended
            row[3].update(kind for kind, _ in t.problems)
    lines = ["| fault | times | job finished | ended with a cause and resumed | problems |", "|---|---:|---:|---:|---|"]
    for name in sorted(rows):
        n, done, resumed, problems = rows[name]
        lines.append(f"| {name} | {n} | {done} | {resumed} | {', '.join(f'{k} {v}' for k, v in problems.items()) or '0'} |")
    faults = sum(len(t.faults) for t in trials)
    counts = collections.Counter(kind for t in trials for kind in {k for k, _ in t.problems})
    lines.append("")
    lines.append(f"{len(trials)} jobs, {faults} faults: " + ", ".join(f"{counts[k]} {k}" for k in KINDS))
    return "\n".join(lines)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--faults", type=int, default=100)
    p.add_argument("--seed", type=int, default=None, help="of the first trial (the time)")
    p.add_argument("--replay", type=int, help="this trial alone")
    p.add_argument("--jobs", type=int, default=2, help="trials at the same time")
    p.add_argument("--seconds", type=float, default=1e9, help="begin no trial after so long")
    p.add_argument("--only", type=lambda words: words.split(","), help=f"jobs of these kinds: {','.join(MODES)}")
    p.add_argument("--quick", action="store_true", help="only what starts quickly")
    p.add_argument("--keep", action="store_true", help="keep the folder of trials with problems")
    a = p.parse_args()
    namespaces = has_namespaces()
    base = pathlib.Path(tempfile.mkdtemp(prefix="shoal-campaign-"))
    data = Data(base)
    if a.replay is not None:
        t = run_trial(draw(a.replay, namespaces, a.quick, a.only), data)
        print(t, "->", t.ended, t.problems, f"({t.seconds:.1f} s)")
        print(f"kept in {base}" if t.problems else "")
        sys.exit(bool(t.problems))
    first = a.seed if a.seed is not None else int(time.time()) % 10**8 * 10
    print(f"seeds from {first}" + ("" if namespaces else "; no network namespaces, so no faults of the network"), flush=True)
    begun, chosen, faults = time.monotonic(), [], 0
    for seed in itertools.count(first):
        if faults >= a.faults:
            break
        chosen.append(draw(seed, namespaces, a.quick, a.only))
        faults += len(chosen[-1].faults)
    trials = []

    def one(t):
        return run_trial(t, data) if time.monotonic() - begun < a.seconds else None

    with concurrent.futures.ThreadPoolExecutor(a.jobs) as pool:
        for t in pool.map(one, chosen):
            if not t:
                continue
            trials.append(t)
            print(f"{t.seed}: {t} -> {t.ended} ({t.seconds:.1f} s)" + "".join(f"\n    {k.upper()}: {w}" for k, w in t.problems),
                  flush=True)
    print("\n" + table(trials))
    print(f"{time.monotonic() - begun:.0f} s; replay a trial with --replay SEED")
    bad = any(t.problems for t in trials)
    if bad and a.keep:
        print(f"folders of trials with problems: {base}")
    else:
        shutil.rmtree(base, ignore_errors=True)
    sys.exit(bad)


if __name__ == "__main__":
    main()
