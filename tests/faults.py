#!/usr/bin/env python3
"""Makes each call of the system fail in turn, in a short training, a resume and a report; damages messages of a job.

Needs a build with -Dfaults=true (src/base/fault.c), best under ASan: make faults. A first run counts the calls, then run N fails
its N-th one: alone (once), or with all later calls of the same function (lasting). Each must end with the right result, or with
an exit status other than 0 and a word of why; never by a signal, with a sanitizer's report (a leak is one), without a word, or
not at all. Calls that are interrupted or do only a part (partly) must change nothing. Checksums that do not match (damage), of a
server's or a worker's messages and of a checkpoint, must leave the right result or a named end, too."""
import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading

HERE = pathlib.Path(__file__).resolve().parent
os.environ.setdefault("SHOAL_ROOT", str(HERE.parent))
os.environ.setdefault("SHOAL_BIN", str(HERE.parent / "build-faults" / "shoal"))
sys.path.insert(0, str(HERE / "cli"))
import support  # noqa: E402

SECONDS = 60
SANITIZER = 99
MARKS = {"once": "", "lasting": "+", "partly": "~", "damage": "!"} # as src/base/fault.c reads them


class Server:
    """A process that has started once, which takes most of a run's time under ASan, and runs its command as often as it is told."""

    def __init__(self, words, environment):
        self.process = subprocess.Popen([support.SHOAL, *map(str, words)], env={**environment, "SHOAL_FAULT_SERVER": "1"},
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        self.words = b""

    def line(self, seconds):
        """The next one; None: it has not come in time."""
        while b"\n" not in self.words:
            if not select.select([self.process.stdout], [], [], seconds)[0]:
                return None
            got = self.process.stdout.read(100)
            if not got:
                raise EOFError("the process that runs the command has ended")
            self.words += got
        line, self.words = self.words.split(b"\n", 1)
        return line.split()

    def run(self, folder, fault):
        """The exit status, as subprocess has it."""
        self.process.stdin.write(f"{folder} {fault}\n".encode())
        pid = int(self.line(SECONDS)[0])
        ended = self.line(SECONDS)
        if ended:
            return os.waitstatus_to_exitcode(int(ended[1]))
        os.kill(pid, signal.SIGKILL)
        self.line(SECONDS)
        raise subprocess.TimeoutExpired(support.SHOAL, SECONDS)

    def close(self):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()


class Program:
    """One command, in a folder of its own that is prepared anew for each run."""

    def __init__(self, name, base, words, prepared=None, modes=("once", "lasting", "partly"), task=None):
        self.name, self.base, self.words, self.prepared, self.modes, self.task = name, base, words, prepared, modes, task
        self.servers, self.own = [], threading.local()

    def server(self, environment):
        """That of this thread."""
        if not hasattr(self.own, "server"):
            self.own.server = Server(self.words, environment)
            self.servers.append(self.own.server)
        return self.own.server

    def close(self):
        for server in self.servers:
            server.close()
        self.servers, self.own = [], threading.local()

    def run(self, folder, number, mode):
        """(exit status, standard error, number of calls, name of the one that failed)"""
        if self.prepared:
            shutil.copytree(self.base / self.prepared, folder / "run")
        log = folder / "calls"
        environment = {**os.environ, "ASAN_OPTIONS": f"detect_leaks=1:exitcode={SANITIZER}:allocator_may_return_null=1",
                       "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1"}
        fault = f"{number}{MARKS[mode]}"
        if self.task: # of several processes, each of which starts anew
            environment |= {"SHOAL_FAULT": fault, "SHOAL_FAULT_LOG": str(log), "SHOAL_FAULT_TASK": self.task}
            done = subprocess.run([support.SHOAL, *map(str, self.words)], cwd=folder, env=environment, text=True,
                                  stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=SECONDS, errors="replace")
            status, said = done.returncode, done.stderr
        else:
            status = self.server(environment).run(folder, fault)
            said = (folder / "said").read_text(errors="replace")
        calls, name = log.read_text().split() if log.exists() else ("0", "?")
        return status, said, int(calls), name

    def result(self, folder):
        """What must be the same in every run that says it is good."""
        if self.name == "report":
            return (folder / "report.html").exists() and (folder / "report.html").stat().st_size > 10000
        summary = json.loads((folder / "run" / "summary.json").read_text())
        if self.task: # who computes which rows may be another after a connection was given up
            return summary["status"], summary["examples"], (folder / "run" / "model.safetensors").stat().st_size
        model = (folder / "run" / "model.safetensors").read_bytes()
        if self.modes == ["damage"]: # a checksum that is written wrong is found by who reads it
            model = model[8 + int.from_bytes(model[:8], "little"):]
        return sorted(summary), len(summary["tasks"]), summary["status"], summary["examples"], model


def judge(program, number, mode, wanted):
    """None, or (kind, name of the call, words)."""
    folder = pathlib.Path(tempfile.mkdtemp(dir=program.base))
    try:
        try:
            status, said, _, name = program.run(folder, number, mode)
        except subprocess.TimeoutExpired:
            return "hang", "?", ""
        if status < 0 or status == SANITIZER or "Sanitizer" in said or "runtime error" in said:
            return "leak" if "LeakSanitizer" in said else "crash", name, said
        if status == 0:
            try:
                good = program.result(folder) == wanted
            except (OSError, ValueError, KeyError):
                good = False
            return None if good else ("wrong", name, said)
        if not said.strip():
            return "silent", name, ""
        if mode == "partly":
            return "failed", name, said
        left = [p.name for p in folder.rglob("*.tmp")]
        return ("leftovers", name, f"{left}: {said}") if left else None
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def programs(base):
    support.make_data(base / "bars", 64, 32)
    train = ["train", "softmax", "--data", base / "bars", "--batch-size", 16, "--threads", 1, "--quiet", "--run-dir", "run"]
    before = base / "before"
    before.mkdir()
    environment = {k: v for k, v in os.environ.items() if not k.startswith("SHOAL_FAULT")}
    subprocess.run([support.SHOAL, *map(str, train), "--epochs", "2"], cwd=before, check=True, stdout=subprocess.DEVNULL,
                   env=environment)
    return [Program("training", base, [*train, "--epochs", 2, "--checkpoint-every", 4]),
            Program("resume", base, ["train", "softmax", "--run-dir", "run", "--resume", "--epochs", 4, "--quiet"], "before/run"),
            Program("report", base, ["report", "run", "--out", "report.html"], "before/run", modes=("once", "lasting")),
            *(Program(f"messages of {task}", base, [*train, "--epochs", 2, "--workers", 2, "--ps", 1, "--transport", transport],
                      modes=["damage"], task=task) for task, transport in (("ps:0", "shm"), ("worker:1", "zmq"))),
            Program("damaged checkpoint", base, ["train", "softmax", "--run-dir", "run", "--resume", "--epochs", 4, "--quiet"],
                    "before/run", modes=["damage"])]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--every", type=int, default=1, help="only every so many-th call")
    p.add_argument("--first", type=int, default=1)
    p.add_argument("--jobs", type=int, default=os.cpu_count())
    p.add_argument("--last", type=int, default=1 << 30)
    p.add_argument("--program", help="this one alone, e.g. training, resume or report")
    p.add_argument("--mode", choices=MARKS, help="this kind of fault alone")
    p.add_argument("--call", type=int, help="this call alone, with what the program says")
    a = p.parse_args()
    base = pathlib.Path(tempfile.mkdtemp(prefix="shoal-faults-"))
    bad = total = 0
    for program, mode in [(p, m) for p in programs(base) for m in p.modes]:
        if program.name != (a.program or program.name) or mode != (a.mode or mode):
            continue
        first = base / f"count-{program.name}-{mode}"
        first.mkdir()
        status, said, calls, _ = program.run(first, 0, mode)
        if status or not calls:
            sys.exit(f"{program.name} without a fault: exit {status}, {calls} calls: {said}\n(a build with -Dfaults=true is needed)")
        wanted = program.result(first)
        numbers = [a.call] if a.call else range(a.first, min(calls, a.last) + 1, a.every)
        found = collections.defaultdict(list)
        with concurrent.futures.ThreadPoolExecutor(a.jobs) as pool:
            for number, problem in zip(numbers, pool.map(lambda n: judge(program, n, mode, wanted), numbers)):
                if problem:
                    found[problem[:2]].append((number, problem[2]))
        program.close()
        problems = sum(map(len, found.values()))
        print(f"{program.name}, {mode}: {calls} calls, {len(numbers)} of them chosen one by one: {problems} problems", flush=True)
        for (kind, name), cases in sorted(found.items()):
            print(f"  {kind} after {name}: {len(cases)}, calls {', '.join(str(n) for n, _ in cases[:8])}")
            print("    " + "\n    ".join(cases[0][1].strip().splitlines()[:400 if a.call else 14]), flush=True)
        bad += problems
        total += len(numbers)
    shutil.rmtree(base, ignore_errors=True)
    print(f"{total} injected failures, {bad} problems")
    sys.exit(bad > 0)


if __name__ == "__main__":
    main()
