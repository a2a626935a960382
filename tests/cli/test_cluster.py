"""Clusters of local processes: the same learning, nobody alone, nothing left running."""
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import threading
import time

import support

LATEST = 10  # seconds in which a job that cannot go on must have ended


def tasks_of(run):
    """Processes that are tasks of the run in that folder: {"worker:1": pid}."""
    job = str(run / "logs" / "job.json")
    found = {}
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            words = (entry / "cmdline").read_bytes().decode().split("\0")
            state = (entry / "stat").read_text().rsplit(")", 1)[1].split()[0]
        except OSError:
            continue
        if job in words and state != "Z":
            found[words[words.index("--task") + 1]] = int(entry.name)
    return found


class Cluster(support.Case):
    def cluster(self, run, *flags, model="softmax", expect=0):
        return self.train(model, self.folder / run, *flags, expect=expect)

    def started(self, run, *flags):
        """Starts a long run; returns (process, folder) once it trains."""
        folder = self.folder / run
        process = subprocess.Popen(
            [support.SHOAL, "train", "softmax", "--data", self.data, "--run-dir", folder, "--epochs", "100000000",
             "--batch-size", "16", "--threads", "1", *flags], cwd=self.folder, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, env=self.environment())
        end = time.monotonic() + 30
        while time.monotonic() < end and not support.has_begun(folder):
            self.assertIsNone(process.poll(), "it ended before it began")
            time.sleep(0.02)
        return process, folder

    def ends(self, process, folder):
        """Waits for the end; nothing may be left. Returns (exit status, output, errors, seconds)."""
        before = time.monotonic()
        try:
            out, err = process.communicate(timeout=LATEST)
        except subprocess.TimeoutExpired:
            process.kill()
            self.fail(f"still running after {LATEST} s: {tasks_of(folder)}")
        took = time.monotonic() - before
        while tasks_of(folder) and time.monotonic() - before < LATEST: # one that ended at once takes its tasks along
            time.sleep(0.02)
        self.assertEqual(tasks_of(folder), {})
        return process.returncode, out, err, took

    def test_sync_learns_as_one_process(self):
        for epochs, flags in ((3, ["--workers", 3]),
                              (3, ["--workers", 2, "--ps", 2, "--optimizer", "adam", "--lr", 0.01])):
            workers = flags[1]
            name = f"r{workers}"
            out, err = self.cluster(name, "--epochs", epochs, "--batch-size", 60 // workers, *flags)
            self.assertEqual(err, "")
            for word in ("ps sync", "ps/0", f"worker/{workers - 1}", "net"):
                self.assertIn(word, out)
            self.train("softmax", f"single{workers}", "--epochs", epochs, "--batch-size", 60, *flags[4:])
            one, many = self.summary(f"single{workers}"), self.summary(name)
            for key in ("steps", "updates", "examples", "parameters", "global_batch"):
                self.assertEqual(one[key], many[key], key)
            self.assertAlmostEqual(one["final_loss"], many["final_loss"], delta=1e-4)
            self.assertEqual(one["test_accuracy"], many["test_accuracy"])
            self.shoal("eval", name, "--threads", 1)

    def test_sync_repeats_bit_by_bit(self):
        for name in ("a", "b"):
            self.cluster(name, "--epochs", 2, "--batch-size", 10, "--workers", 3, "--ps", 2)
        weights = [(self.folder / name / "model.safetensors").read_bytes() for name in ("a", "b")]
        self.assertEqual(*weights)

    def test_proof_of_togetherness(self):
        self.cluster("r", "--epochs", 2, "--batch-size", 20, "--workers", 3, "--ps", 2)
        s = self.summary("r")
        self.assertEqual((s["strategy"], s["mode"], s["workers"], s["ps"]), ("ps", "sync", 3, 2))
        self.assertEqual(s["global_batch"], 60)
        self.assertEqual(s["updates"], 2 * 9)  # 512 rows
        self.assertEqual(len(s["tasks"]), 5)
        self.assertEqual(len(s["gradients"]), 3)
        self.assertTrue(all(n > 0 for n in s["gradients"]))
        workers = [t for t in s["tasks"] if t["role"] == "worker"]
        servers = [t for t in s["tasks"] if t["role"] == "ps"]
        self.assertEqual(len({t["pid"] for t in s["tasks"]}), 5)
        self.assertEqual(len({t["test_accuracy"] for t in workers}), 1)
        self.assertEqual(sum(t["examples"] for t in workers), 2 * 512)
        for t in servers:
            self.assertEqual(t["updates"], s["updates"])
            self.assertEqual(sum(t["gradient_examples"]), 2 * 512)
            self.assertEqual(t["staleness"]["most"], 0)
        sent = sum(t["net_sent_bytes"] for t in workers)
        self.assertEqual(sent, sum(t["net_received_bytes"] for t in servers))
        self.assertGreater(sent, s["updates"] * 2 * 4 * s["parameters"])
        for name in ("ps-0", "ps-1", "worker-0", "worker-2"):
            self.assertTrue((self.folder / "r" / "logs" / f"{name}.log").exists())

    def test_one_schedule_in_all_modes(self):
        for mode in ("sync", "async"):
            out, _ = self.cluster(mode, "--epochs", 1, "--workers", 2, "--mode", mode)
            flags = json.loads((self.folder / mode / "settings.json").read_text())["flags"]
            self.assertEqual((flags["schedule"], self.summary(mode)["schedule"]), ("constant", "constant"))
            self.assertEqual("gradients are stale" in " ".join(out.split()), mode == "async", out)
            self.assertIn("0.5 constant", out)
        out, _ = self.cluster("falling", "--epochs", 1, "--workers", 2, "--mode", "async", "--schedule", "cosine")
        self.assertNotIn("gradients are stale", " ".join(out.split()))

    def test_async_learns(self):
        self.cluster("r", "--epochs", 6, "--batch-size", 8, "--workers", 3, "--mode", "async", "--lr", 0.1)
        s = self.summary("r")
        self.assertGreater(s["test_accuracy"], 0.95)
        self.assertEqual(s["updates"], 6 * 64)
        self.assertEqual(s["global_batch"], 8)
        for t in s["tasks"]:
            if t["role"] == "worker":
                self.assertGreater(t["test_accuracy"], 0.9)
            else:
                self.assertEqual(sum(t["staleness"]["histogram"]), s["updates"])

    def test_staleness_is_bounded(self):
        for number, (flags, own) in enumerate(((["--in-flight", 1], 0), (["--in-flight", 2], 1),
                                               (["--in-flight", 2, "--transport", "tls", "--ps", 2], 1))):
            with self.subTest(flags=flags):
                name = f"r{number}"
                self.cluster(name, "--epochs", 4, "--batch-size", 8, "--workers", 3, "--mode", "async", "--staleness", 1,
                             "--lr", 0.1, *flags)
                s = self.summary(name)
                self.assertEqual(s["staleness"], 1)
                for server in (t for t in s["tasks"] if t["role"] == "ps"):
                    self.assertLessEqual(server["staleness"]["most"], 2 * (2 * 1 + 1) + own)
                    self.assertLessEqual(server["staleness"]["ahead"], 1)
                    self.assertEqual(sum(server["staleness"]["histogram"]), server["updates"])
                    self.assertEqual(server["updates"], 4 * 64)
                    self.assertEqual(sum(server["gradient_examples"]), s["examples"])

    def test_lenet(self):
        for mode in ("sync", "async"):
            self.cluster(mode, "--steps", 40, "--batch-size", 16, "--workers", 2, "--mode", mode, model="lenet")
            self.assertLess(self.summary(mode)["final_loss"], 2.4)
            self.assertGreaterEqual(self.summary(mode)["updates"], 40)

    def test_a_killed_task_ends_the_job(self):
        for victim, flags in (("ps:0", ["--workers", "2", "--max-restarts", "0"]),
                              ("worker:0", ["--workers", "2", "--mode", "async", "--max-restarts", "0"]),
                              ("ps:1", ["--workers", "1", "--ps", "2", "--no-checkpoints"])):
            process, folder = self.started(victim.replace(":", ""), *flags)
            tasks = tasks_of(folder)
            self.assertIn(victim, tasks)
            os.kill(tasks[victim], signal.SIGKILL)
            status, _, err, seconds = self.ends(process, folder)
            self.assertEqual(status, 1, err)
            self.assertLess(seconds, 5)
            self.assertIn(victim.replace(":", "/"), err)
            self.assertIn("signal 9", err)
            self.assertIn(str(folder / "logs"), err)
            summary = self.summary(folder.name)
            self.assertEqual(summary["status"], "failed")
            self.assertIn(victim.replace(":", "/"), summary["error"])

    def test_the_parents_death_leaves_nothing(self):
        process, folder = self.started("r", "--workers", "3")
        self.assertEqual(len(tasks_of(folder)), 4)
        process.kill()
        process.communicate()
        end = time.monotonic() + 5
        while tasks_of(folder) and time.monotonic() < end:
            time.sleep(0.02)
        self.assertEqual(tasks_of(folder), {})

    def test_ctrl_c_stops_all_and_resume_continues(self):
        for mode in ("sync", "async"):
            process, folder = self.started(mode, "--workers", "3", "--optimizer", "momentum", "--lr", "0.01", "--mode",
                                           mode)
            process.send_signal(signal.SIGINT)
            status, out, err, _ = self.ends(process, folder)
            self.assertEqual(status, 130, err)
            self.assertIn("worker/2", out)
            first = self.summary(mode)
            self.assertEqual(first["status"], "interrupted")
            self.assertTrue(list((folder / "checkpoints").glob("step-*.safetensors")))
            epochs = first["epochs"] + 2
            self.train("softmax", mode, "--resume", "--epochs", epochs)
            second = self.summary(mode)
            self.assertEqual(second["epochs"], epochs)
            self.assertEqual(second["workers"], 3)
            self.assertIsNotNone(second["resumed_from"])
            if mode == "sync":
                self.assertEqual(second["resumed_from"], first["steps"])
                self.assertEqual(second["examples"], epochs * 512)

    def test_ctrl_c_at_any_moment(self):
        for i in range(8):
            folder = self.folder / f"early{i}"
            process = subprocess.Popen(
                [support.SHOAL, "train", "softmax", "--data", self.data, "--run-dir", folder, "--epochs", "100000000",
                 "--workers", "2", "--threads", "1", "--quiet"], cwd=self.folder, stdout=subprocess.PIPE,
                stderr=subprocess.PIPE, text=True, env=self.environment())
            end = time.monotonic() + 20
            while not (folder / "logs" / "job.json").exists() and time.monotonic() < end:
                time.sleep(0.001)
            time.sleep(0.012 * i)
            process.send_signal(signal.SIGINT)
            status, _, err, _ = self.ends(process, folder)
            self.assertEqual(status, 130, err)

    def test_both_signals_in_quick_succession(self):
        """SIGINT and SIGTERM, at any moment of a cluster and of its end: one of the two is the status, what is said is about that,
        the job goes on from what was saved, and then nothing is left."""
        for i, pause in enumerate((0, 0.002, 0.02, 0.15)):
            with self.subTest(pause=pause):
                folder = self.folder / f"both{i}"
                words = [support.SHOAL, "train", "softmax", "--data", self.data, "--run-dir", folder, "--workers", "2", "--threads",
                         "1", "--quiet", "--checkpoint-every", "50"]
                process = subprocess.Popen([*words, "--epochs", "100000000"], cwd=self.folder, stdout=subprocess.PIPE,
                                           stderr=subprocess.PIPE, text=True, env=self.environment())
                end = time.monotonic() + 20
                while not list(folder.glob("checkpoints/*.safetensors")) and time.monotonic() < end:
                    time.sleep(0.005)
                first, second = (signal.SIGINT, signal.SIGTERM)[::1 if i % 2 else -1]
                process.send_signal(first)
                time.sleep(pause)
                process.send_signal(second)
                status, out, err, _ = self.ends(process, folder)
                # a second one ends it as if nobody had listened, which Python calls -15 and a shell 143
                self.assertIn(status if status > 0 else 128 - status, (130, 143), out + err)
                self.assertTrue(err.strip(), "not a word")
                self.assertNotIn("must agree", err)
                self.assertNotIn("no gradient", err)
                saved = max(int(p.stem.split("-")[1]) for p in folder.glob("checkpoints/*.safetensors"))
                done = subprocess.run([*words, "--resume", "--steps", str(saved + 10)], cwd=self.folder,
                                      capture_output=True, text=True, env=self.environment(), timeout=support.SECONDS)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(self.summary(f"both{i}")["status"], "finished")
                # The second signal ends a job at once, also while it writes: what was half written is gone by now.
                self.assertFalse(list(folder.rglob("*.tmp")), err)

    def test_wrong_flags(self):
        for number, (flags, words) in enumerate((
                (["--strategy", "single", "--workers", 2], "--strategy ps"),
                (["--workers", 2, "--staleness", 1], "--mode async"),
                (["--workers", 2, "--backup-workers", 2], "at most 1"),
                (["--workers", 2, "--mode", "async", "--backup-workers", 1], "does not apply"),
                (["--strategy", "single", "--heartbeat", 3], "does not apply"),
                (["--workers", 2, "--in-flight", 2], "does not apply to --mode sync"),
                (["--workers", 2, "--mode", "async", "--staleness", 0, "--in-flight", 2], "--staleness 0"),
                (["--workers", 2, "--mode", "async", "--in-flight", 3], "from 1 to 2"),
                (["--strategy", "single", "--mode", "async"], "does not apply"),
                (["--workers", 0], "from 1"), (["--ps", 0], "from 1"), (["--mode", "asnyc", "--ps", 1], "async"),
                (["--workers", 1, "--ps", 256], "or fewer"),
                (["--workers", 9, "--batch-size", 100], "fewer workers"),
                (["--task", "worker:0"], "--cluster"),
        )):
            with self.subTest(flags=flags):
                _, err = self.shoal("train", "softmax", "--data", self.data, "--run-dir", f"wrong{number}", *flags,
                                    expect=2)
                self.assertIn(words, err)
                self.assertEqual(tasks_of(self.folder / f"wrong{number}"), {})

    def test_a_stopped_worker_is_named(self):
        process, folder = self.started("r", "--workers", "2", "--deadline", "4")
        os.kill(tasks_of(folder)["worker:1"], signal.SIGSTOP)
        status, _, err, _ = self.ends(process, folder)
        self.assertEqual(status, 1)
        self.assertIn("worker/1", err)


class Described(support.Case):
    """Tasks that are started one by one and find each other by a description."""

    def setUp(self):
        super().setUp()
        sockets = [socket.socket() for _ in range(4)]
        for s in sockets:
            s.bind(("127.0.0.1", 0))
        addresses = [f"127.0.0.1:{s.getsockname()[1]}" for s in sockets]
        for s in sockets:
            s.close()
        self.cluster = {"worker": addresses[:2], "ps": addresses[2:3]}
        self.tasks = []

    def tearDown(self):
        for task in self.tasks:
            if task.poll() is None:
                task.kill()
            task.communicate()

    def start(self, task, *flags, **environment):
        """By file, unless the environment has TF_CONFIG."""
        (self.folder / "new.json").write_text(json.dumps({"cluster": self.cluster}))
        os.replace(self.folder / "new.json", self.folder / "cluster.json")  # a task started before may be reading it
        by = [] if environment else ["--cluster", "cluster.json", "--task", task]
        process = subprocess.Popen(
            [support.SHOAL, "train", "softmax", "--data", self.data, "--run-dir", "r", "--batch-size", "20",
             "--threads", "1", *by, *map(str, flags)], cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env=self.environment(**environment))
        self.tasks.append(process)
        return process

    def wait_for_training(self):
        end = time.monotonic() + 20
        while time.monotonic() < end and not support.has_begun(self.folder / "r"):
            time.sleep(0.02)

    def end(self, process, expect=0):
        try:
            out, err = process.communicate(timeout=LATEST)
        except subprocess.TimeoutExpired:
            ended = [task.poll() for task in self.tasks]
            for task in self.tasks:
                task.kill()
            self.fail(f"still running; exit statuses {ended}: " + "\n".join(
                str(task.communicate()) for task in self.tasks))
        self.assertEqual(process.returncode, expect, out + err)
        return out, err

    def test_by_file(self):
        server, other, chief = (self.start(t, "--epochs", 2) for t in ("ps:0", "worker:1", "worker:0"))
        out, _ = self.end(chief)
        self.assertIn("worker/1", out)
        self.assertIn("test accuracy", self.end(other)[0])
        self.assertRegex(self.end(server)[0], r"\d updates? applied")
        summary = self.summary("r")
        self.assertEqual([(t["role"], t["index"]) for t in summary["tasks"]], [("ps", 0), ("worker", 0), ("worker", 1)])
        self.assertEqual(len({t["pid"] for t in summary["tasks"]}), 3)
        self.assertTrue(all(n > 0 for n in summary["gradients"]))

    def test_by_environment_with_keys(self):
        self.shoal("keygen", "keys")
        self.cluster["chief"] = [self.cluster["worker"].pop(0)]
        tasks = {}
        for role in ("ps", "worker", "chief"):
            config = json.dumps({"cluster": self.cluster, "task": {"type": role, "index": 0}})
            tasks[role] = self.start("", "--epochs", 2, "--mode", "async", "--lr", 0.1, "--keys", "keys",
                                     TF_CONFIG=config)
        for task in tasks.values():
            self.end(task)
        self.assertEqual(self.summary("r")["updates"], 2 * 26)

    def test_wrong_keys_are_named(self):
        for folder in ("keys", "others"):
            self.shoal("keygen", folder)
        begun = time.monotonic()
        self.start("ps:0", "--keys", "keys", "--deadline", 3)
        _, err = self.end(self.start("worker:1", "--keys", "others", "--deadline", 3), expect=1)
        self.assertIn("does not allow our key", err)
        self.assertLess(time.monotonic() - begun, 15)

    def test_other_settings_are_refused(self):
        """A worker is told which setting differs; who comes with the right ones then takes its place."""
        server = self.start("ps:0", "--epochs", 2)
        chief = self.start("worker:0", "--epochs", 2)
        wrong = self.start("worker:1", "--epochs", 2, "--lr", 0.25)
        _, err = self.end(wrong, expect=1)
        self.assertIn("refused: its settings are not the chief's: lr is 0.25 there, 0.5 here", err)
        time.sleep(3)
        self.end(self.start("worker:1", "--epochs", 2))
        for task in (chief, server):
            self.end(task)

    def test_who_was_refused_is_named_at_the_deadline(self):
        server = self.start("ps:0", "--deadline", 7) # time to connect on a busy machine
        self.start("worker:0", "--epochs", 2, "--deadline", 7)
        self.end(self.start("worker:1", "--epochs", 2, "--mode", "async"), expect=1)
        _, err = self.end(server, expect=1)
        self.assertIn("worker/1 (refused: its settings are not the chief's: mode is async there, sync here", err)

    def test_a_server_needs_no_data_and_no_settings(self):
        """It learns from worker 0 what to hold: its own flags name the cluster alone."""
        server = subprocess.Popen([support.SHOAL, "train", "softmax", "--data", "not-there.idx", "--cluster", "cluster.json",
                                   "--task", "ps:0"], cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                  text=True, env=self.environment())
        self.tasks.append(server)
        workers = [self.start(f"worker:{i}", "--epochs", 1, "--mode", "async", "--optimizer", "adam", "--lr", 0.01)
                   for i in range(2)]
        for task in workers + [server]:
            self.end(task)
        self.assertEqual(self.summary("r")["updates"], 26)

    def test_a_place_taken_twice_is_refused(self):
        self.start("ps:0")
        first = self.start("worker:1", "--epochs", 2)
        time.sleep(1)
        _, err = self.end(self.start("worker:1", "--epochs", 2), expect=1)
        self.assertIn("already connected as this worker", err)
        self.assertIsNone(first.poll())

    def test_a_lost_worker_is_done_without(self):
        names = ("ps:0", "worker:1", "worker:0")
        server, other, chief = (self.start(t, "--epochs", 10000000, "--quiet") for t in names)
        self.wait_for_training()
        time.sleep(0.2)
        other.kill()
        time.sleep(0.5)
        chief.send_signal(signal.SIGINT)
        self.end(chief, expect=130)
        self.end(server)
        summary = self.summary("r")
        self.assertEqual(summary["tasks"][0]["deaths"], [0, 1])
        self.assertEqual([t["index"] for t in summary["tasks"] if t["role"] == "worker"], [0])

    def read_until(self, process, pattern):
        """The first line of its standard error that has the pattern."""
        timer = threading.Timer(LATEST, process.kill)
        timer.start()
        seen = []
        try:
            for line in process.stderr:
                seen.append(line)
                if re.search(pattern, line):
                    return line
        finally:
            timer.cancel()
        self.fail(f"no '{pattern}' in {seen}")

    def test_who_leaves_and_comes_is_told(self):
        """When it happens, at the chief, by the names that the user gave them."""
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.cluster["chief"] = [f"127.0.0.1:{s.getsockname()[1]}"]
        for mode in ("sync", "async"):
            with self.subTest(mode=mode):
                flags = ("--epochs", 10000000, "--mode", mode, "--lr", 0.1, "--run-dir", mode)
                names = ("ps:0", "chief:0", "worker:0", "worker:1")
                server, chief, first, second = (self.start(t, *flags) for t in names)
                until = time.monotonic() + 20
                while time.monotonic() < until and not support.has_begun(self.folder / mode):
                    time.sleep(0.02)
                second.kill()
                address = re.escape(self.cluster["worker"][1])
                self.read_until(chief, rf"^worker/1 \({address}\) left at step \d+: its connection closed; "
                                       r"(its \d+ rows are handed on|the others go on without it)$")
                second = self.start("worker:1", *flags)
                self.read_until(chief, rf"^worker/1 \({address}\) rejoined at step \d+$")
                first.kill()
                self.read_until(chief, r"^worker/0 .*left at step")
                chief.send_signal(signal.SIGINT)
                out, err = self.end(chief, expect=130)
                self.assertRegex(out, r"\b2 of 3\b")
                self.assertIn("worker/0 was lost", out)
                self.assertIn("worker/1 left and rejoined 1 time.", out)
                self.assertRegex(self.end(second)[0], r"^worker/1: .* steps?")
                self.end(server)
                summary = self.summary(mode)
                self.assertEqual([(m["task"], m["event"], m["reason"]) for m in summary["membership"]],
                                 [("worker/1", "left", "connection closed"), ("worker/1", "rejoined", None),
                                  ("worker/0", "left", "connection closed")])
                self.assertEqual((summary["workers"], summary["final_workers"]), (3, 2))
                self.assertEqual(summary["lost_workers"], ["worker/0"])
                self.assertEqual([(t["name"], t["role"], t["index"]) for t in summary["tasks"]],
                                 [("ps/0", "ps", 0), ("chief/0", "worker", 0), ("worker/1", "worker", 2)])
                lines = [json.loads(l) for l in (self.folder / mode / "metrics.jsonl").read_text().splitlines()]
                self.assertLessEqual({l["task"] for l in lines}, {"ps/0", "chief/0", "worker/0", "worker/1"})
                self.assertIn("chief/0", {l["task"] for l in lines if l["kind"] in ("step", "epoch")})

    def test_a_lost_chief_ends_all(self):
        server, chief, other = (self.start(t, "--epochs", 10000000, "--quiet", "--max-restarts", 0)
                                for t in ("ps:0", "worker:0", "worker:1"))
        self.wait_for_training()
        chief.kill()
        self.assertIn("worker/0 disconnected", self.end(server, expect=1)[1])
        self.assertIn("ps/0", self.end(other, expect=1)[1])

    def test_a_connection_that_comes_back_is_no_death(self):
        """Tasks that do not respond for a while lose their connections, and go on when they do."""
        tasks = {t: self.start(t, "--epochs", 3000, "--quiet", "--heartbeat", 0.5, "--mode", "async", "--lr", 0.1)
                 for t in ("ps:0", "worker:0", "worker:1")}
        self.wait_for_training()
        for task in ("ps:0", "worker:0"):
            tasks[task].send_signal(signal.SIGSTOP)
            time.sleep(2.5)
            tasks[task].send_signal(signal.SIGCONT)
            time.sleep(1)
        for task in tasks.values():
            out, err = task.communicate(timeout=60)
            self.assertEqual(task.returncode, 0, out + err)
        self.assertEqual(self.summary("r")["examples"], 3000 * 512)

    def test_wrong_descriptions(self):
        config = json.dumps({"cluster": {**self.cluster, "wroker": []}, "task": {"type": "ps", "index": 0}})
        self.assertIn("did you mean worker?", self.end(self.start("", TF_CONFIG=config), expect=2)[1])
        self.assertIn("worker:0 to worker:1", self.end(self.start("worker:2"), expect=2)[1])
        self.assertIn("description has 2", self.end(self.start("worker:0", "--workers", 3), expect=2)[1])
        self.cluster["ps"] = ["192.0.2.1:2222"]
        self.assertIn("keygen", self.end(self.start("ps:0"), expect=2)[1])
        del self.cluster["ps"]
        self.assertIn("no ps", self.end(self.start("worker:0", "--strategy", "ps"), expect=2)[1])

    def test_workers_alone_are_ranks(self):
        """All-reduce without MPI between tasks that were described, encrypted; then one that is killed and comes back, one that is missing."""
        self.shoal("keygen", "keys")
        del self.cluster["ps"]
        flags = ["--keys", "keys", "--deterministic"]
        config = json.dumps({"cluster": self.cluster, "task": {"type": "worker", "index": 1}})
        other = self.start("", "--epochs", 2, *flags, TF_CONFIG=config)
        out, _ = self.end(self.start("worker:0", "--epochs", 2, *flags))
        self.assertIn("worker/1", out)
        self.assertIn("test accuracy", self.end(other)[0])
        self.assertEqual((self.summary("r")["strategy"], self.summary("r")["workers"]), ("allreduce", 2))
        self.shoal("train", "softmax", "--data", self.data, "--run-dir", "one", "--batch-size", 40, "--epochs", 2,
                   "--deterministic")
        weights = [(self.folder / run / "model.safetensors").read_bytes() for run in ("r", "one")]
        self.assertEqual(*weights)
        shutil.rmtree(self.folder / "r")
        chief, other = (self.start(f"worker:{i}", "--epochs", 100000, "--checkpoint-every", 5) for i in (0, 1))
        self.wait_for_training()
        other.kill()
        again = self.start("worker:1", "--epochs", 100000)
        time.sleep(4)
        chief.send_signal(signal.SIGTERM)
        _, err = self.end(chief, expect=143)
        self.assertIn("worker/1 left at step", err)
        self.assertIn("worker/1 rejoined at step", err)
        self.assertIn("worker/1", self.end(again)[0])
        late = self.end(self.start("worker:0", "--resume", "--deadline", 1), expect=1)[1]
        self.assertIn("rank 1 (" + self.cluster["worker"][1] + ")", late)
        self.assertIn("--deadline", late)


if __name__ == "__main__":
    support.main()
