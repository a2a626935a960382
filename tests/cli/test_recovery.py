"""Tasks that die, stop or come late, at any moment: the job finishes or ends with a named cause, and nothing is left.

SHOAL_KILL_ROUNDS says how often each kind of task is killed (once, unless told otherwise)."""
import json
import os
import random
import signal
import subprocess
import time

import support
from test_cluster import tasks_of

ROUNDS = int(os.environ.get("SHOAL_KILL_ROUNDS", "1"))
LATEST = 10  # seconds from a kill to the end of a job that cannot go on, or to its next step
ROWS = 512


class Recovery(support.Case):
    PATIENCE = LATEST

    def begin(self, name, *flags, epochs=100000000, lr="0.1"):
        folder = self.folder / name
        return self.in_background("train", "softmax", "--data", self.data, "--run-dir", folder, "--epochs", epochs, "--batch-size", 16,
                                  "--threads", 1, "--lr", lr, "--quiet", *flags), folder

    def steps(self, folder):
        """The step that metrics.jsonl has last, -1: none."""
        try:
            lines = (folder / "metrics.jsonl").read_text().splitlines()
        except OSError:
            return -1
        for line in reversed(lines):
            try:
                record = json.loads(line)
            except ValueError:
                continue
            if record.get("kind") == "step":
                return record["step"]
        return -1

    def wait_for_training(self, process, folder):
        self.wait_for(lambda: self.steps(folder) >= 0, "training", process, 30)

    def wait_for_steps(self, process, folder):
        """Training goes on from here."""
        before = (folder / "metrics.jsonl").stat().st_size
        self.wait_for(lambda: (folder / "metrics.jsonl").stat().st_size > before + 2000, "going on", process)

    def end(self, process, folder, expect=0):
        try:
            out, err = process.communicate(timeout=LATEST)
        except subprocess.TimeoutExpired:
            self.fail(f"still running: {tasks_of(folder)}")
        self.assertEqual(process.returncode, expect, out + err)
        self.assertEqual(tasks_of(folder), {})
        return out, err

    def stop(self, process, folder):
        process.send_signal(signal.SIGINT)
        out, _ = self.end(process, folder, 130)
        return self.summary(folder.name), out

    def kill_at_random(self, victim, first):
        """Kills at any moment from the very start on. The job must go on, and stop when asked to; or end by itself with
        a message that names the victim."""
        numbers = random.Random(victim)
        modes = self.MODES
        for i in range(ROUNDS):
            flags = modes[(i + first) % len(modes)]
            process, folder = self.begin(f"{victim.replace(':', '')}-{i}", "--workers", 3, "--ps", 2, *flags,
                                         "--checkpoint-every", 2000)
            delay = numbers.uniform(0, 1.2)
            with self.subTest(victim=victim, flags=flags, delay=delay):
                self.wait_for(lambda: victim in tasks_of(folder), "start", process)
                time.sleep(delay)
                tasks = tasks_of(folder)
                os.kill(tasks[victim], signal.SIGKILL)
                killed = time.monotonic()
                self.wait_for(lambda: tasks_of(folder).get(victim) not in (None, tasks[victim]), "start again", process)
                self.wait_for_training(process, folder)
                self.wait_for_steps(process, folder)
                self.assertLess(time.monotonic() - killed, LATEST)
                summary, out = self.stop(process, folder)
                self.assertEqual(summary["restarts"], 1)
                self.assertIn("restarted 1 time", out)

    MODES = (["--mode", "sync"], ["--mode", "async"], ["--mode", "sync", "--transport", "tls"],
             ["--mode", "async", "--staleness", "4", "--in-flight", "2"], ["--mode", "sync", "--backup-workers", "1"],
             ["--mode", "async", "--transport", "tls", "--in-flight", "2"])

    def test_a_worker_is_killed(self):
        self.kill_at_random("worker:1", 0)

    def test_a_server_is_killed(self):
        self.kill_at_random("ps:1", 1)

    def test_the_leader_is_killed(self):
        self.kill_at_random("ps:0", 2)

    def test_the_chief_is_killed(self):
        self.kill_at_random("worker:0", 4)

    def test_a_worker_that_does_not_return_is_done_without(self):
        """Each row once an epoch, whoever does it."""
        for mode, *flags in (("sync",), ("async",), ("sync", "--deterministic")):
            name = mode + "".join(flags)
            process, folder = self.begin(name, "--workers", 3, "--mode", mode, "--max-restarts", 0,
                                         "--checkpoint-every", 100000, *flags, epochs=2000)
            self.wait_for_training(process, folder)
            os.kill(tasks_of(folder)["worker:2"], signal.SIGKILL)
            out, err = self.end_later(process, folder)
            self.assertIn("the job goes on without it", err)
            summary = self.summary(name)
            self.assertEqual(summary["lost_workers"], ["worker/2"])
            self.assertEqual(summary["examples"], 2000 * ROWS)
            self.assertEqual(sum(summary["tasks"][0]["gradient_examples"]), 2000 * ROWS)
            self.assertEqual(summary["handed_on_rows"], 16 if summary["handed_on_rows"] else 0)
            self.assertIn("worker/2 was lost", out)
            self.assertEqual(summary["uneven_updates"] > 0, bool(flags))
            self.assertEqual("--deterministic could not be kept" in out, bool(flags))
        out, _ = self.shoal("train", "softmax", "--resume", "--run-dir", name, "--epochs", 2010)
        self.assertGreaterEqual(self.summary(name)["uneven_updates"], summary["uneven_updates"])
        self.assertIn("--deterministic could not be kept", out)

    def test_a_worker_that_returns_changes_no_bit(self):
        """With --deterministic a round waits for it. Of several servers one may have had its gradient already and
        another not: then the run says that the bits are lost."""
        flags = ["--data", self.data, "--deterministic", "--epochs", 1500, "--lr", 0.1, "--quiet"]
        self.shoal("train", "softmax", "--run-dir", "one", "--batch-size", 48, "--threads", 1, *flags)
        for servers in (1, 2):
            name = f"returns{servers}"
            process, folder = self.begin(name, "--workers", 3, "--ps", servers, "--deterministic", epochs=1500)
            self.wait_for_training(process, folder)
            os.kill(tasks_of(folder)["worker:1"], signal.SIGKILL)
            self.end_later(process, folder)
            summary = self.summary(name)
            self.assertEqual((summary["restarts"], summary["lost_workers"]), (1, []))
            same = (folder / "model.safetensors").read_bytes() == (self.folder / "one/model.safetensors").read_bytes()
            self.assertEqual(same, summary["uneven_updates"] == 0)
            self.assertTrue(same or servers > 1)

    def rows_saved(self, path):
        try:
            with open(path, "rb") as f:
                state = json.loads(f.read(int.from_bytes(f.read(8), "little")))["__metadata__"]
        except FileNotFoundError:  # a newer one has taken its place
            return 0
        return int(state["epoch"]) * ROWS + int(state["position"])

    def test_a_resume_in_the_middle_of_a_round(self):
        """With --deterministic, where a worker was lost: no row is used twice, and the bits are not said to be kept, though nobody
        could tell so when all was killed."""
        process, folder = self.begin("middle", "--workers", 2, "--deterministic", "--max-restarts", 0, "--checkpoint-every", 7)
        self.wait_for_training(process, folder)
        os.kill(tasks_of(folder)["worker:1"], signal.SIGKILL)

        def saved():
            files = sorted(folder.glob("checkpoints/step-*.safetensors"))
            return [f for f in files if self.rows_saved(f) % 32 == 16]

        self.wait_for(saved, "a checkpoint in the middle of a round", process)
        process.kill()
        process.communicate()
        self.wait_for(lambda: not tasks_of(folder), "the end of all tasks")
        last = saved()[-1]
        for newer in folder.glob("checkpoints/step-*.safetensors"):
            if newer.name > last.name:
                newer.unlink()
        epochs = self.rows_saved(last) // ROWS + 3
        self.shoal("train", "softmax", "--resume", "--run-dir", "middle", "--epochs", epochs, "--quiet")
        s = self.summary("middle")
        self.assertEqual((s["status"], s["examples"]), ("finished", epochs * ROWS))
        self.assertGreater(s["uneven_updates"], 0)

    def stop_at_start(self, task, process, folder):
        """The task's pid; it does nothing until it is sent SIGCONT."""
        seen = {}
        self.wait_for(lambda: seen.update(tasks_of(folder)) or task in seen, "start", process)
        os.kill(seen[task], signal.SIGSTOP)
        return seen[task]

    def test_a_worker_and_a_server_are_killed_at_once(self):
        """Neither waits for the other to come back first."""
        process, folder = self.begin("both", "--workers", 3, "--ps", 2, "--deterministic", "--checkpoint-every", 2000)
        self.wait_for_training(process, folder)
        for victim in ("worker:1", "ps:1"):
            os.kill(tasks_of(folder)[victim], signal.SIGKILL)
        begun = time.monotonic()
        self.wait_for_steps(process, folder)
        self.assertLess(time.monotonic() - begun, 7)
        summary, _ = self.stop(process, folder)
        self.assertEqual(summary["restarts"], 2)

    def test_a_server_returns_when_a_worker_is_lost_for_good(self):
        process, folder = self.begin("lost", "--workers", 3, "--max-restarts", 1, "--checkpoint-every", 2000)
        self.wait_for_training(process, folder)
        first = tasks_of(folder)["worker:1"]
        os.kill(first, signal.SIGKILL)
        self.wait_for(lambda: tasks_of(folder).get("worker:1") not in (None, first), "start again", process)
        os.kill(tasks_of(folder)["worker:1"], signal.SIGKILL)
        self.wait_for(lambda: "worker:1" not in tasks_of(folder), "end", process)
        os.kill(tasks_of(folder)["ps:0"], signal.SIGKILL)
        self.wait_for_steps(process, folder)
        self.stop(process, folder)

    def test_a_task_dies_before_all_have_joined(self):
        """What worker 0 has is still what the training begins with: it is uploaded once more."""
        for victim, *flags in (("ps:1",), ("worker:0", "--mode", "async")):
            with self.subTest(victim=victim):
                process, folder = self.begin(victim.replace(":", ""), "--workers", 3, "--ps", 2, *flags, epochs=300)
                late = self.stop_at_start("worker:2", process, folder)
                self.wait_for(lambda: (folder / "graph.json").exists(), "worker 0", process)
                time.sleep(0.4)  # START was said; worker 2 is awaited
                os.kill(tasks_of(folder)[victim], signal.SIGKILL)
                time.sleep(1.2)
                os.kill(late, signal.SIGCONT)
                self.end_later(process, folder)
                summary = self.summary(folder.name)
                self.assertEqual((summary["status"], summary["restarts"]), ("finished", 1))
                self.assertEqual(summary["examples"], 300 * ROWS)

    def test_a_server_with_a_part_of_a_table_is_killed(self):
        """After a checkpoint, and before the first one: then the training begins once more."""
        self.shoal("data", "generate", "criteo", "--rows", 4000, "--features", 100000, "--files", 4, "--out", "clicks")
        for name, every in (("saved", "20"), ("unsaved", "100000")):
            folder = self.folder / name
            process = subprocess.Popen(
                [support.SHOAL, "train", "sparse-lr", "--data", "clicks", "--features", "100000", "--epochs", "200",
                 "--workers", "2", "--ps", "2", "--mode", "async", "--run-dir", folder, "--checkpoint-every", every,
                 "--log-every", "1", "--threads", "1", "--quiet"],
                cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=self.environment())
            self.addCleanup(self.put_away, process)
            self.wait_for(lambda: self.steps(folder) > 50, "training", process, 30)
            os.kill(tasks_of(folder)["ps:1"], signal.SIGKILL)
            _, err = self.end_later(process, folder)
            self.assertIn("a parameter server was lost", err)
            self.assertEqual("from step 0 on" in err, name == "unsaved")
            summary = self.summary(name)
            self.assertEqual((summary["status"], summary["restarts"]), ("finished", 1))
            self.assertEqual(summary["examples"], 200 * 4000)

    def test_a_worker_that_comes_when_all_is_over(self):
        """The model is saved: a worker that was stopped from its start on takes nothing from that."""
        process, folder = self.begin("over", "--workers", 3, "--mode", "async", epochs=20)
        late = self.stop_at_start("worker:2", process, folder)
        self.wait_for(lambda: set(tasks_of(folder)) == {"worker:2"}, "the end of the others", process, 30)
        os.kill(late, signal.SIGCONT)
        begun = time.monotonic()
        _, err = self.end_later(process, folder)
        self.assertLess(time.monotonic() - begun, 10)
        self.assertIn("was not back when the job ended", err)
        summary = self.summary("over")
        self.assertEqual((summary["status"], summary["examples"]), ("finished", 20 * ROWS))

    def test_a_stopped_chief_or_server_is_replaced(self):
        for victim in ("ps:0", "worker:0"):
            process, folder = self.begin("stopped-" + victim.replace(":", ""), "--workers", 2, "--heartbeat", 0.5,
                                         "--checkpoint-every", 500)
            self.wait_for_training(process, folder)
            stopped = tasks_of(folder)[victim]
            os.kill(stopped, signal.SIGSTOP)
            self.wait_for(lambda: tasks_of(folder).get(victim) not in (None, stopped), "start again", process)
            before = self.steps(folder)
            self.wait_for(lambda: self.steps(folder) not in (-1, before), "going on", process)
            summary, _ = self.stop(process, folder)
            self.assertEqual(summary["restarts"], 1)

    def test_a_signal_to_one_task(self):
        """A worker leaves, and the others go on; worker 0 stops the job, which says so by its exit status."""
        for mode in ("sync", "async"):
            process, folder = self.begin(mode, "--workers", 3, "--ps", 2, "--mode", mode, epochs=600)
            self.wait_for_training(process, folder)
            os.kill(tasks_of(folder)["worker:1"], signal.SIGTERM)
            _, err = self.end_later(process, folder)
            self.assertIn("worker/1 left at step", err)
            summary = self.summary(mode)
            self.assertEqual((summary["status"], summary["examples"]), ("finished", 600 * ROWS))
        process, folder = self.begin("chief", "--workers", 3)
        self.wait_for_training(process, folder)
        os.kill(tasks_of(folder)["worker:0"], signal.SIGINT)
        _, err = self.end(process, folder, 143)
        self.assertIn("worker/0 received a signal", err)
        self.assertEqual(self.summary("chief")["status"], "interrupted")

    def test_a_result_is_not_replaced_by_a_failure(self):
        process, folder = self.begin("good", "--workers", 2, epochs=2)
        self.end_later(process, folder)
        before = self.summary("good")
        self.shoal("train", "softmax", "--resume", "--run-dir", "good")  # it has ended: nothing is left to do
        self.assertEqual(self.summary("good")["updates"], before["updates"])
        self.shoal("train", "softmax", "--resume", "--run-dir", "good", "--data", "not-there", "--epochs", 4, expect=2)
        self.assertEqual(self.summary("good")["status"], "finished")

    def end_later(self, process, folder):
        out, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 0, out + err)
        self.assertEqual(tasks_of(folder), {})
        return out, err

    def test_a_worker_that_stops_for_a_while(self):
        """Who does not have to wait for it does not."""
        for flags, goes_on in ((["--mode", "async", "--staleness", "1000000"], True),
                               (["--mode", "sync", "--backup-workers", "1"], True), (["--mode", "sync"], False),
                               (["--mode", "async"], True))[:2 if ROUNDS < 30 else 4]:
            with self.subTest(flags=flags):
                process, folder = self.begin("stop" + "".join(flags), "--workers", 3, "--heartbeat", 60, *flags)
                self.wait_for_training(process, folder)
                victim = tasks_of(folder)["worker:2"]
                os.kill(victim, signal.SIGSTOP)
                time.sleep(0.3)
                before = self.steps(folder)
                time.sleep(5 if ROUNDS >= 30 else 1)
                if goes_on:
                    self.wait_for(lambda: self.steps(folder) > before + 100, "going on without it", process)
                else:
                    self.assertLessEqual(self.steps(folder), before + 100)
                os.kill(victim, signal.SIGCONT)
                self.wait_for_steps(process, folder)
                summary, _ = self.stop(process, folder)
                self.assertEqual(summary["lost_workers"], [])
                self.assertEqual(summary["tasks"][0]["deaths"], [0, 0, 0])
                if "--backup-workers" in flags:
                    self.assertGreater(summary["late_gradients"], 0)

    def test_a_silent_worker_is_left_out_until_it_speaks(self):
        for flags in (["--mode", "sync", "--ps", "2"], ["--mode", "async", "--staleness", "4"]):
            with self.subTest(flags=flags):
                process, folder = self.begin("silent" + flags[1], "--workers", 3, "--heartbeat", 0.5, *flags)
                self.wait_for_training(process, folder)
                victim = tasks_of(folder)["worker:2"]
                os.kill(victim, signal.SIGSTOP)
                time.sleep(1.5)
                self.wait_for_steps(process, folder)
                os.kill(victim, signal.SIGCONT)
                time.sleep(0.5)
                self.wait_for_steps(process, folder)
                summary, _ = self.stop(process, folder)
                self.assertEqual(summary["lost_workers"], [])
                self.assertEqual(summary["tasks"][0]["deaths"], [0, 0, 1])
                self.assertEqual(summary["tasks"][0]["joins"], [1, 1, 2])
                self.assertEqual([(m["task"], m["event"], m["reason"]) for m in summary["membership"]],
                                 [("worker/2", "left", "no heartbeat"), ("worker/2", "rejoined", None)])
                self.assertEqual(len({t["test_accuracy"] for t in summary["tasks"] if t["role"] == "worker"}), 1)


class Late(support.Case):
    def test_a_worker_that_starts_late_joins_at_once(self):
        """Tasks started one by one; the third worker comes when the others train."""
        import socket
        sockets = [socket.socket() for _ in range(4)]
        for s in sockets:
            s.bind(("127.0.0.1", 0))
        addresses = [f"127.0.0.1:{s.getsockname()[1]}" for s in sockets]
        for s in sockets:
            s.close()
        (self.folder / "cluster.json").write_text(json.dumps(
            {"cluster": {"worker": addresses[:3], "ps": addresses[3:]}}))
        tasks = {}

        def start(name):
            tasks[name] = subprocess.Popen(
                [support.SHOAL, "train", "softmax", "--data", self.data, "--run-dir", "r", "--threads", "1",
                 "--batch-size", "16", "--epochs", "100000000", "--mode", "async", "--lr", "0.1", "--quiet",
                 "--cluster", "cluster.json", "--task", name], cwd=self.folder, stdout=subprocess.PIPE,
                stderr=subprocess.PIPE, text=True, env=self.environment())

        try:
            for name in ("ps:0", "worker:0", "worker:1"):
                start(name)
            time.sleep(2.5)
            start("worker:2")
            time.sleep(1.5)
            tasks["worker:0"].send_signal(signal.SIGINT)
            for name, task in tasks.items():
                out, err = task.communicate(timeout=LATEST)
                self.assertEqual(task.returncode, 130 if name == "worker:0" else 0, f"{name}: {out}{err}")
        finally:
            for task in tasks.values():
                if task.poll() is None:
                    task.kill()
                task.communicate()
        summary = self.summary("r")
        self.assertEqual(summary["tasks"][0]["late_joins"], [0, 0, 1])
        self.assertTrue(all(n > 0 for n in summary["gradients"]), summary["gradients"])


if __name__ == "__main__":
    support.main()
