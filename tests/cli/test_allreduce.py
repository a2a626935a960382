"""Replicas on threads and on ranks, with and without MPI: the same learning, the same bits where they are asked for, nobody left running."""
import os
import pathlib
import resource
import shutil
import signal
import subprocess
import time
import unittest

import support

LATEST = 10  # seconds in which a job that cannot go on must have ended
HAS_MPI = shutil.which("mpirun") and (pathlib.Path(support.SHOAL).parent / "shoal-mpi.so").exists()
needs_mpi = unittest.skipUnless(HAS_MPI, "no mpirun, or built without MPI")


def ranks_of(run):
    """Processes of the run in that folder that are ranks: {rank: pid}."""
    found = {}
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            words = (entry / "cmdline").read_bytes().decode().split("\0")
            surroundings = (entry / "environ").read_bytes().decode(errors="replace").split("\0")
            state = (entry / "stat").read_text().rsplit(")", 1)[1].split()[0]
        except OSError:
            continue
        if state == "Z" or str(run) not in words or "mpirun" in words[0]:
            continue
        for line in surroundings:
            if line.startswith(("OMPI_COMM_WORLD_RANK=", "SHOAL_RANK=")):
                found[int(line.split("=")[1].split()[0])] = int(entry.name)
    return found


class Replicas(support.Case):
    transport = "auto" # of ranks

    def replicas(self, strategy, workers, run, *flags, model="lenet", expect=0):
        """Runs with so many workers, one thread each; returns (output, errors)."""
        if strategy == "allreduce" and "--transport" not in flags:
            flags = [*flags, "--transport", self.transport]
        return self.shoal("train", model, "--data", self.data, "--run-dir", self.folder / run, "--strategy", strategy,
                          "--workers", workers, "--threads", 1, *flags, expect=expect)

    def weights(self, run):
        return (self.folder / run / "model.safetensors").read_bytes()

    def keys(self):
        folder = self.folder / "keys"
        if not folder.exists():
            self.shoal("keygen", folder)
        return folder

    def test_learns_as_one_process(self):
        """Rounds that do not fill all workers, a short last one, an optimizer with a counter."""
        flags = ["--steps", 20, "--optimizer", "adam", "--lr", 0.002]
        self.train("lenet", "single", "--batch-size", 150, *flags)
        one = self.summary("single")
        for strategy in ("mirrored", "allreduce"):
            self.replicas(strategy, 3, strategy, "--batch-size", 50, *flags)
            many = self.summary(strategy)
            for key in ("steps", "updates", "examples", "parameters", "global_batch", "epochs"):
                self.assertEqual(one[key], many[key], key)
            self.assertAlmostEqual(one["final_loss"], many["final_loss"], delta=1e-4)
            self.assertEqual(one["test_accuracy"], many["test_accuracy"])
            self.assertEqual(many["workers"], 3)

    def test_deterministic(self):
        """The same bits whatever the strategy, the workers and the threads."""
        flags = ["--steps", 12, "--optimizer", "momentum", "--lr", 0.02, "--deterministic", "--no-checkpoints"]
        for threads in (1, 2):
            self.shoal("train", "lenet", "--data", self.data, "--run-dir", f"single{threads}", "--threads", threads,
                       "--batch-size", 100, *flags)
        self.assertEqual(self.weights("single1"), self.weights("single2"))
        for strategy in ("mirrored", "allreduce"):
            for workers in (1, 2, 3, 4):
                self.replicas(strategy, workers, f"{strategy}{workers}", "--global-batch", 100, *flags)
                self.assertEqual(self.weights("single1"), self.weights(f"{strategy}{workers}"), f"{strategy} {workers}")
        for name, more in (("tcp", ["--transport", "tls"]), ("tls", ["--transport", "tls", "--keys", self.keys()])):
            self.replicas("allreduce", 3, name, "--global-batch", 100, *flags, *more)
            self.assertEqual(self.weights("single1"), self.weights(name), name)
        if HAS_MPI:
            self.replicas("allreduce", 3, "mpi", "--global-batch", 100, "--transport", "mpi", *flags)
            self.assertEqual(self.weights("single1"), self.weights("mpi"))
        for workers, servers, transport in ((1, 2, "shm"), (2, 1, "tls"), (3, 1, "shm"), (3, 3, "zmq"), (4, 2, "shm")):
            self.replicas("ps", workers, f"ps{workers}{servers}", "--ps", servers, "--transport", transport,
                          "--global-batch", 100, *flags)
            self.assertEqual(self.weights("single1"), self.weights(f"ps{workers}{servers}"), f"ps {workers} {servers}")
            self.assertEqual(self.summary(f"ps{workers}{servers}")["uneven_updates"], 0)

    def test_mirrored_resumes_with_other_workers(self):
        flags = ["--deterministic", "--optimizer", "momentum", "--lr", 0.02, "--schedule", "constant"]
        self.replicas("mirrored", 2, "whole", "--batch-size", 60, "--steps", 14, *flags)
        self.replicas("mirrored", 2, "parts", "--batch-size", 60, "--steps", 6, *flags)
        self.replicas("mirrored", 3, "parts", "--resume", "--steps", 14)
        self.assertEqual(self.weights("whole"), self.weights("parts"))
        self.assertEqual(self.summary("parts")["global_batch"], 120)
        self.assertEqual(self.summary("parts")["resumed_from"], 6)

    def test_servers_resume_what_threads_began(self):
        flags = ["--deterministic", "--optimizer", "adam", "--lr", 0.002, "--schedule", "constant"]
        self.replicas("mirrored", 2, "whole", "--batch-size", 60, "--steps", 14, *flags)
        self.replicas("mirrored", 2, "parts", "--batch-size", 60, "--steps", 6, *flags)
        self.replicas("ps", 3, "parts", "--resume", "--ps", 2, "--steps", 14)
        self.assertEqual(self.weights("whole"), self.weights("parts"))

    def test_a_scaled_rate_stays_when_workers_change(self):
        flags = ["--batch-size", 40, "--lr", 0.01, "--schedule", "constant"]
        self.replicas("mirrored", 3, "r", "--scale-lr", "--steps", 4, *flags)
        self.assertAlmostEqual(self.summary("r")["effective_learning_rate"], 0.03)
        self.replicas("mirrored", 2, "r", "--resume", "--steps", 8)
        s = self.summary("r")
        self.assertEqual((s["global_batch"], s["resumed_from"]), (120, 4))
        self.assertAlmostEqual(s["effective_learning_rate"], 0.03)

    def test_the_best_weights_are_everybodys(self):
        """A rate at which a later epoch is worse; all who report a test have tested the same weights."""
        for strategy in ("mirrored", "allreduce", "ps"):
            out, err = self.replicas(strategy, 2, strategy, "--validation-split", 0.25, "--patience", 1, "--epochs", 60,
                                     "--batch-size", 8, "--lr", 40, model="softmax")
            self.assertIn("are taken", out + err, strategy)
            s = self.summary(strategy)
            for task in s["tasks"]:
                alone = strategy == "ps" and task["name"] != "worker/0" # there the chief alone has them
                self.assertEqual(task.get("test_accuracy"), None if alone else s["test_accuracy"], task["name"])

    def test_wrong_flags(self):
        for number, (flags, words) in enumerate((
                (["--strategy", "mirrored", "--workers", 2, "--wire", "bf16"], "--strategy allreduce"),
                (["--strategy", "mirrored", "--workers", 2, "--threads", 3], "one thread per worker"),
                (["--strategy", "mirrored", "--workers", 2, "--ps", 1], "--strategy ps"),
                (["--strategy", "mirrored", "--workers", 2, "--batch-size", 9, "--global-batch", 20], "leave one"),
                (["--deterministic", "--workers", 2, "--ps", 1, "--stream"], "leave --stream out"),
                (["--deterministic", "--workers", 2, "--mode", "async"], "--mode sync without --backup-workers"),
                (["--strategy", "ps", "--workers", 2, "--global-batch", 20], "give --batch-size"),
                (["--strategy", "ps", "--workers", 2, "--transport", "mpi"], "does not apply to the strategy ps"),
                (["--strategy", "allreduce", "--workers", 2, "--transport", "zmq"], "does not apply to the strategy all"),
                (["--strategy", "allreduce", "--workers", 2, "--keys", "k"], "add --transport tls"),
                (["--strategy", "allreduce", "--workers", 2, "--deterministic", "--wire", "int8"], "leave one out"),
                (["--strategy", "allreduce", "--workers", 2, "--deterministic", "--compress", "auto"], "leave one out"),
                (["--strategy", "allreduce", "--workers", 2, "--deterministic", "--local-steps", 2], "leave one out"),
                (["--strategy", "allreduce", "--workers", 2, "--compress", "auto", "--wire", "bf16"], "chooses the --wire"),
                (["--strategy", "allreduce", "--workers", 2, "--compress-rank", 2], "add --compress powersgd"),
                (["--strategy", "allreduce", "--workers", 2, "--outer-lr", 0.5], "add --local-steps"),
                (["--strategy", "mirrored", "--workers", 2, "--local-steps", 2], "--strategy allreduce"),
        )):
            with self.subTest(flags=flags):
                _, err = self.shoal("train", "lenet", "--data", self.data, "--run-dir", f"wrong{number}", *flags,
                                    expect=2)
                self.assertIn(words, err)


class Ranks(Replicas):
    """Processes that this command starts itself."""
    test_learns_as_one_process = test_deterministic = test_servers_resume_what_threads_began = None
    test_mirrored_resumes_with_other_workers = test_a_scaled_rate_stays_when_workers_change = test_wrong_flags = None

    def test_report(self):
        out, err = self.replicas("allreduce", 2, "r", "--epochs", 1, "--batch-size", 32)
        self.assertEqual(err, "")
        self.assertIn("worker/1", out)
        self.assertNotIn("late", out)
        s = self.summary("r")
        self.assertEqual([(t["role"], t["index"]) for t in s["tasks"]], [("worker", 0), ("worker", 1)])
        self.assertEqual(len({t["pid"] for t in s["tasks"]}), 2)
        self.assertEqual(len({t["test_accuracy"] for t in s["tasks"]}), 1)
        self.assertEqual(sum(t["examples"] for t in s["tasks"]), 512)
        self.assertEqual(s["gradients"], [8, 8])
        for t in s["tasks"]:
            self.assertEqual(t["net_sent_bytes"], t["net_received_bytes"])
            self.assertGreaterEqual(t["net_sent_bytes"], s["updates"] * 4 * s["parameters"])
            self.assertGreater(t["time"]["barrier_seconds"], 0)

    def test_half_the_bytes(self):
        for wire in ("f32", "bf16"):
            self.replicas("allreduce", 2, wire, "--steps", 16, "--batch-size", 32, "--wire", wire)
        one, half = self.summary("f32"), self.summary("bf16")
        self.assertEqual(one["tasks"][0]["net_sent_bytes"], 2 * half["tasks"][0]["net_sent_bytes"])
        self.assertAlmostEqual(one["final_loss"], half["final_loss"], delta=0.01)
        self.assertNotEqual(self.weights("f32"), self.weights("bf16"))
        self.replicas("allreduce", 2, "int8", "--steps", 16, "--batch-size", 32, "--wire", "int8")
        quarter = self.summary("int8")
        self.assertLess(quarter["tasks"][0]["net_sent_bytes"], 0.26 * one["tasks"][0]["net_sent_bytes"])
        self.assertAlmostEqual(one["final_loss"], quarter["final_loss"], delta=0.01)
        self.assertEqual(len({t["test_accuracy"] for t in quarter["tasks"]}), 1)

    def test_fewer_bytes(self):
        """The largest numbers alone, factors, one exchange in several steps: as good as all numbers, in far fewer bytes."""
        ways = {"f32": [], "topk": ["--wire", "topk"], "powersgd": ["--compress", "powersgd"],
                "local": ["--local-steps", 8], "diloco": ["--local-steps", 8, "--outer-momentum", 0.9]}
        for run, flags in ways.items():
            self.replicas("allreduce", 2, run, "--steps", 200, "--batch-size", 32, *flags)
        sent = {run: self.summary(run)["tasks"][0]["net_sent_bytes"] for run in ways}
        for run, share in {"topk": 0.025, "powersgd": 0.15, "local": 0.13, "diloco": 0.13}.items():
            self.assertLess(sent[run], share * sent["f32"], run)
            s = self.summary(run)
            self.assertGreater(s["test_accuracy"], self.summary("f32")["test_accuracy"] - 0.02, run)
            self.assertEqual(len({t["test_accuracy"] for t in s["tasks"]}), 1, run)

    def test_stopped_between_exchanges(self):
        """Checkpoints are of exchanges, and a run that goes on from one ends with all its rows."""
        flags = ["--local-steps", 50, "--batch-size", 32, "--checkpoint-every", 30]
        self.replicas("allreduce", 2, "apart", "--steps", 130, *flags)
        saved = {int(f.stem.split("-")[1]) for f in (self.folder / "apart" / "checkpoints").glob("step-*.safetensors")}
        self.assertLessEqual(saved, {50, 100, 130, *range(8, 130, 8)}) # 512 rows: an epoch has 8 steps
        self.replicas("allreduce", 2, "apart", "--steps", 180, "--resume")
        self.assertEqual(self.summary("apart")["steps"], 180)

    def test_the_fastest_way_is_chosen(self):
        _, err = self.replicas("allreduce", 2, "chosen", "--steps", 40, "--batch-size", 32, "--compress", "auto")
        self.assertRegex(err, r"compress auto: (f32|bf16|int8|topk|powersgd), [\d.]+ ms a step, ")
        self.assertEqual(self.summary("chosen")["steps"], 40)

    def started(self, run, workers, *flags):
        """Starts a long run; returns (process, folder) once there is a checkpoint."""
        folder = self.folder / run
        process = subprocess.Popen(
            [support.SHOAL, "train", "lenet", "--data", self.data, "--run-dir", folder, "--epochs", "1000000",
             "--strategy", "allreduce", "--workers", str(workers), "--threads", "1", "--checkpoint-every", "5",
             "--transport", self.transport, *flags], cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env=self.environment())
        end = time.monotonic() + 30
        while time.monotonic() < end and not list((folder / "checkpoints").glob("step-*.safetensors")):
            self.assertIsNone(process.poll(), "it ended before it began")
            time.sleep(0.02)
        return process, folder

    def ends(self, process, folder):
        """Waits for the end; nothing may be left. Returns (exit status, output, errors)."""
        try:
            out, err = process.communicate(timeout=LATEST)
        except subprocess.TimeoutExpired:
            process.kill()
            self.fail(f"still running after {LATEST} s: {ranks_of(folder)}")
        self.assertEqual(ranks_of(folder), {})
        return process.returncode, out, err

    def test_a_killed_rank_ends_the_job_and_fewer_go_on(self):
        """Without MPI, rank 0 where it may not be started again (test_elastic.py)."""
        mpi = self.transport == "mpi"
        for victim in (2, 0) if mpi else (0,):
            process, folder = self.started(f"r{victim}", 3, *([] if mpi else ["--max-restarts", "0"]))
            pid = ranks_of(folder)[victim]
            os.kill(pid, signal.SIGKILL)
            status, _, err = self.ends(process, folder)
            self.assertEqual(status, 1, err)
            self.assertIn(f"rank {victim} (pid {pid}", err)
            self.assertIn("the last checkpoint is " + str(folder / "checkpoints" / "step-"), err)
        run = "r2" if mpi else "r0"
        if mpi:
            self.assertEqual(self.summary("r2")["status"], "failed")
            self.assertIn("rank 2", self.summary("r2")["error"])
        self.replicas("allreduce", 2, run, "--resume", "--epochs", 1)
        s = self.summary(run)
        self.assertGreaterEqual(s["resumed_from"], 5)
        self.assertEqual((s["workers"], s["global_batch"], s["batch_size"]), (2, 192, 96))

    def test_trouble_at_the_start_is_named(self):
        """A rank stopped or killed as soon as it is there, two killed, and too few open files for mpirun: ends, and says why."""
        def begin(run, files=None):
            limit = files and (lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (files, files)))
            return subprocess.Popen(
                [support.SHOAL, "train", "softmax", "--data", self.data, "--run-dir", self.folder / run, "--epochs",
                 "1000000", "--strategy", "allreduce", "--workers", "3", "--threads", "1", "--deadline", "3",
                 "--transport", self.transport, *([] if self.transport == "mpi" else ["--max-restarts", "0"])],
                cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=self.environment(),
                preexec_fn=limit)
        jobs = {run: begin(run) for run in ("stopped", "killed", "two")}
        if self.transport == "mpi":
            jobs["few"] = begin("few", 32)
        waiting = {"stopped": (signal.SIGSTOP, 1), "killed": (signal.SIGKILL, 1), "two": (signal.SIGKILL, 2)}
        end = time.monotonic() + 20
        while waiting and time.monotonic() < end:
            for run in list(waiting):
                found = list(ranks_of(self.folder / run).values())
                number, count = waiting[run]
                if len(found) >= count:
                    for pid in found[-count:]:
                        os.kill(pid, number)
                    del waiting[run]
                elif jobs[run].poll() is not None: # a busy machine on which none has begun in time
                    waiting.pop(run)
        for run, process in jobs.items():
            status, _, err = self.ends(process, self.folder / run)
            self.assertEqual(status, 1, f"{run}: {err}")
            # Of ranks that were killed before they had said that they were there, mpirun tells the signal alone.
            self.assertRegex(err, "ulimit -n" if run == "few" else r"rank [0-2] \(|a rank was ended by signal 9", run)

    def test_ctrl_c_stops_all_after_the_same_step(self):
        process, folder = self.started("r", 2)
        process.send_signal(signal.SIGINT)
        status, out, err = self.ends(process, folder)
        self.assertEqual(status, 130, err)
        self.assertIn("worker/1", out)
        s = self.summary("r")
        self.assertEqual(s["status"], "interrupted")
        self.assertEqual({t["steps"] for t in s["tasks"]}, {s["steps"]})
        newest = max(p.name for p in (folder / "checkpoints").glob("step-*.safetensors"))
        self.assertEqual(newest, f"step-{s['steps']:012d}.safetensors")

    def test_a_signal_to_a_rank_is_no_success(self):
        process, folder = self.started("r", 2)
        os.kill(ranks_of(folder)[1 if self.transport == "mpi" else 0], signal.SIGTERM) # without MPI another rank leaves
        status, _, err = self.ends(process, folder)
        self.assertEqual(status, 143, err)
        self.assertIn("a rank received a signal", err)
        self.assertEqual(self.summary("r")["status"], "interrupted")

    def test_the_parents_death_leaves_nothing(self):
        process, folder = self.started("r", 2)
        self.assertEqual(len(ranks_of(folder)), 2)
        process.kill()
        process.communicate()
        end = time.monotonic() + LATEST
        while ranks_of(folder) and time.monotonic() < end:
            time.sleep(0.05)
        self.assertEqual(ranks_of(folder), {})

    def test_what_all_lack_is_told_once(self):
        _, err = self.shoal("train", "lenet", "--data", "nowhere", "--strategy", "allreduce", "--workers", 3, expect=2)
        self.assertEqual(err.count("nowhere"), 1, err)


class TlsRanks(Ranks):
    """The same with encrypted connections: what depends on who carries the messages."""
    transport = "tls"
    test_report = test_half_the_bytes = test_the_best_weights_are_everybodys = test_what_all_lack_is_told_once = None
    test_the_parents_death_leaves_nothing = test_a_signal_to_a_rank_is_no_success = None
    test_trouble_at_the_start_is_named = test_fewer_bytes = test_stopped_between_exchanges = None

    def started(self, run, workers, *flags):
        return super().started(run, workers, *flags, "--keys", self.keys())


@needs_mpi
class MpiRanks(Ranks):
    """The same by MPI."""
    transport = "mpi"
    test_half_the_bytes = test_the_best_weights_are_everybodys = test_fewer_bytes = test_stopped_between_exchanges = None
    test_the_fastest_way_is_chosen = None

    def test_without_mpirun(self):
        flags = ["--strategy", "allreduce", "--workers", 2, "--transport", "mpi"]
        _, err = self.shoal("train", "lenet", "--data", self.data, *flags, expect=1, env={"PATH": "/nowhere"})
        self.assertIn("openmpi-bin", err)
        _, err = self.shoal("train", "lenet", "--data", self.data, *flags, expect=1, env={"SHOAL_PLUGINS": "/nowhere"})
        self.assertIn("built without mpi", err)


if __name__ == "__main__":
    support.main()
