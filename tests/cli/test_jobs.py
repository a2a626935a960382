"""ps, status, stop, tail, clean and --on-end: jobs that run, and the runs that others have left."""
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import time
import unittest

import support

LATEST = 120  # seconds


class Jobs(support.Case):
    def setUp(self):
        super().setUp()
        self.started = []
        self.addCleanup(self.kill_all)

    def kill_all(self):
        for job in self.started:
            if job.poll() is None:
                job.kill()
            job.communicate()

    def start(self, run, *flags):
        """A job that does not end by itself, once it has made steps."""
        job = subprocess.Popen([support.SHOAL, "train", "softmax", "--data", self.data, "--threads", "1", "--run-dir", run,
                                "--steps", "1000000000", "--log-every", "1000", *flags], cwd=self.folder,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=self.environment())
        self.started.append(job)
        self.wait_until(lambda: support.has_begun(self.folder / run) or job.poll() is not None)
        self.assertIsNone(job.poll(), "the job has ended")
        return job

    def wait_until(self, condition):
        end = time.monotonic() + LATEST
        while not condition():
            self.assertLess(time.monotonic(), end, "waited for too long")
            time.sleep(0.02)

    def runs(self, *arguments):
        return {r["name"]: r for r in json.loads(self.shoal(*arguments, "--json")[0])}

    def test_a_job_from_start_to_stop(self):
        self.train("softmax", "runs/done", "--epochs", "1", "--quiet")
        job = self.start("runs/long")
        listed = self.runs("ps")
        self.assertEqual({name: r["state"] for name, r in listed.items()}, {"done": "finished", "long": "running"})
        self.assertEqual(list(listed), ["long", "done"])  # what is running comes first
        long, done = listed["long"], listed["done"]
        self.assertEqual((long["pid"], long["host"]), (job.pid, socket.gethostname()))
        self.assertEqual((long["model"], long["strategy"], long["steps"]), ("softmax", "single", 1000000000))
        self.assertGreater(long["step"], 0)
        self.assertIsNone(done["pid"])
        self.assertEqual(done["test_accuracy"], self.summary("runs/done")["test_accuracy"])
        words = self.shoal("ps")[0]
        self.assertRegex(words, rf"long +running +softmax .*{job.pid} on ")
        self.assertRegex(words, r"done +finished +softmax ")
        one = self.shoal("status", "runs/long")[0]
        for line in (r"state +running", rf"process +{job.pid} on ", r"folder +runs/long", r"size +[\d.]+ [kM]B"):
            self.assertRegex(one, line)
        self.assertEqual(self.runs("status", "runs/long/")["long"]["pid"], job.pid)
        # It cannot be removed, however old it is.
        self.assertEqual(self.runs("clean", "--keep", "1", "--unfinished", "--yes"), {})
        out = self.shoal("stop", "runs/long", "--deadline", LATEST)[0]
        self.assertRegex(out, r"^runs/long: interrupted at step [\d,]+\nTo continue it: ")
        self.assertEqual(job.wait(timeout=LATEST), 128 + signal.SIGTERM)
        self.assertEqual(self.summary("runs/long")["status"], "interrupted")
        self.assertTrue(list((self.folder / "runs/long/checkpoints").glob("step-*.safetensors")))
        error = self.shoal("stop", "runs/long", expect=2)[1]
        self.assertIn("runs/long: no job runs there", error)

    def is_there(self, pid):
        try:
            return "shoal" in pathlib.Path(f"/proc/{pid}/cmdline").read_text()
        except OSError:
            return False

    def test_a_cluster_ends_at_once(self):
        """Its tasks go with it; nothing says how it ended, and it can be resumed."""
        job = self.start("run", "--workers", "2", "--ps", "1", "--checkpoint-every", "50")
        self.wait_until(lambda: list((self.folder / "run/checkpoints").glob("step-*.safetensors")))
        tasks = support.children(job.pid)
        self.assertEqual(len(tasks), 3)
        words = self.shoal("stop", "run", "--now")[0]
        self.assertTrue(words.startswith("run: lost at step "), words)
        self.assertEqual(job.wait(timeout=LATEST), -signal.SIGKILL)
        self.wait_until(lambda: not any(self.is_there(p) for p in tasks))
        status = self.runs("status", "run")["run"]
        self.assertEqual((status["state"], status["strategy"], status["mode"]), ("lost", "ps", "sync"))
        step = status["step"]
        self.shoal("train", "softmax", "--resume", "--run-dir", "run", "--steps", step + 100, "--quiet")
        self.assertEqual(self.runs("status", "run")["run"]["state"], "finished")

    def test_a_job_of_another_host(self):
        job = self.start("run")
        (self.folder / "run/lock").write_text(f"process {job.pid} on elsewhere\n")
        error = self.shoal("stop", "run", expect=2)[1]
        self.assertIn(f"its job is process {job.pid} on the host elsewhere: stop it there", " ".join(error.split()))
        self.assertIsNone(job.poll())

    def test_tail(self):
        """Ends with the job, and with Ctrl-C without it."""
        job = self.start("run", "--workers", "2", "--ps", "1")
        watcher = subprocess.Popen([support.SHOAL, "tail", "run", "--logs"], cwd=self.folder, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        self.started.append(watcher)
        self.assertRegex(watcher.stdout.readline(), r"step|\[")
        other = subprocess.Popen([support.SHOAL, "tail", "run", "-n", "0", "--json"], cwd=self.folder,
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.started.append(other)
        self.assertIn(json.loads(other.stdout.readline())["kind"], ("step", "epoch", "eval"))
        other.send_signal(signal.SIGINT)
        self.assertEqual(other.wait(timeout=LATEST), 0, other.stderr.read())
        self.assertIsNone(job.poll())
        self.shoal("stop", "run", "--deadline", LATEST)
        out, errors = watcher.communicate(timeout=LATEST)
        self.assertEqual((watcher.returncode, errors), (0, ""))
        self.assertTrue(out.endswith("run: interrupted\n"), out[-500:])
        self.assertRegex(out, r"epoch [\d,]+  step [\d,]+  loss [\d.]+  accuracy [\d.]+ %")
        lines = self.shoal("tail", "run", "-n", "3", "--no-follow", "--json")[0].splitlines()
        kept = [line for line in (self.folder / "run/metrics.jsonl").read_text().splitlines()
                if json.loads(line)["kind"] in ("step", "epoch", "eval")]
        self.assertEqual(lines, kept[-3:])
        every = self.shoal("tail", "run", "-n", "1000000", "--no-follow", "--json")[0].splitlines()
        self.assertEqual(every, kept)

    def make_runs(self, count):
        """Runs of different ages, the youngest first."""
        self.train("softmax", "runs/a0", "--steps", "3", "--quiet")
        for i in range(count):
            path = self.folder / f"runs/a{i}"
            if i:
                shutil.copytree(self.folder / "runs/a0", path)
            summary = json.loads((path / "summary.json").read_text())
            summary["started"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - 86400 * i - 60))
            (path / "summary.json").write_text(json.dumps(summary))
            for name in ("summary.json", "metrics.jsonl", "settings.json"):
                os.utime(path / name, (time.time() - 86400 * i - 60,) * 2)

    def left(self):
        return sorted(p.name for p in (self.folder / "runs").iterdir())

    def test_clean(self):
        self.make_runs(6)
        summary = self.folder / "runs/a4/summary.json"
        changed = json.loads(summary.read_text())
        changed["status"] = "failed"
        summary.write_text(json.dumps(changed))
        os.utime(summary, (time.time() - 4 * 86400,) * 2)
        outside = self.folder / "precious"
        outside.mkdir()
        (outside / "file").write_text("kept")
        (self.folder / "runs/a5/link").symlink_to(outside)
        self.assertEqual(list(self.runs("clean", "--keep", "3")), ["a3", "a5"])  # a4 has failed: it could be resumed
        self.assertEqual(list(self.runs("clean", "--keep", "3", "--unfinished")), ["a3", "a4", "a5"])
        self.assertEqual(list(self.runs("clean", "--older", "1.5")), ["a2", "a3", "a5"])
        size = self.runs("ps")["a0"]["bytes"]
        self.assertEqual(list(self.runs("clean", "--max-size", f"{4.5 * size / 1e3:.0f}kB")), ["a3", "a5"])
        self.assertEqual(self.left(), [f"a{i}" for i in range(6)])  # nothing of that was done
        words = self.shoal("clean", "--keep", "3")[0]
        self.assertRegex(words, r"2 runs would be removed, [\d.]+ [kM]B; --yes does it\.")
        self.assertRegex(self.shoal("clean", "--keep", "3", "--yes")[0], r"2 runs removed")
        self.assertEqual(self.left(), ["a0", "a1", "a2", "a4"])
        self.assertEqual((outside / "file").read_text(), "kept")  # links are not followed
        self.assertIn("--keep, --older or --max-size", self.shoal("clean", expect=2)[1])
        self.assertIn("expected a size like 10GB or 500MB, not 'much'", self.shoal("clean", "--max-size", "much", expect=2)[1])
        # The runs of a sweep are its own.
        self.shoal("sweep", "softmax", "--data", self.data, "--steps", "2", "--lr", "0.1,0.2", "--run-dir", "runs/grid",
                   "--quiet", "--threads", "1")
        self.assertEqual(len(self.runs("ps")), 6)
        self.assertNotIn("grid", " ".join(self.runs("clean", "--older", "0.000001", "--unfinished")))

    def test_nothing_there(self):
        self.assertIn("No runs in runs.", self.shoal("ps")[0])
        self.assertEqual(self.runs("ps", "nowhere"), {})
        for command in ("status", "tail"):
            self.assertIn("nowhere: no run is there", self.shoal(command, "nowhere", expect=2)[1])

    def test_on_end(self):
        """Once, with what became of the job; its own failure changes nothing."""
        hook = "echo \"$SHOAL_RUN $SHOAL_STATUS $SHOAL_EXIT\" >>ends"
        where = (self.folder / "run").resolve()
        self.train("softmax", "run", "--steps", "5", "--workers", "2", "--ps", "1", "--quiet", "--on-end", hook)
        self.train("softmax", "run", "--steps", "9", "--resume", "--quiet", "--on-end", hook)
        self.train("softmax", "run", "--epochs", "2", "--on-end", hook, expect=2)  # there is a run already
        job = self.start("other", "--on-end", hook + "; " + support.SHOAL + " status other --json >state")
        self.shoal("stop", "other", "--deadline", LATEST)
        self.assertEqual(job.wait(timeout=LATEST), 143)
        other = (self.folder / "other").resolve()
        self.assertEqual((self.folder / "ends").read_text().splitlines(),
                         [f"{where} finished 0", f"{where} finished 0", f"{other} interrupted 143"])
        self.assertEqual(json.loads((self.folder / "state").read_text())[0]["state"], "interrupted")  # it is over by then
        error = self.train("softmax", "bad", "--steps", "5", "--quiet", "--on-end", "exit 7")[1]
        self.assertIn("--on-end: 'exit 7' ended with exit status 7", error)
        self.assertEqual(self.summary("bad")["status"], "finished")

    def test_man_pages(self):
        pages = self.folder / "man"
        pages.mkdir()
        self.shoal("help", "--man-pages", pages)
        commands = [line[2:].split("   ")[0].split("  ")[0].strip() for line in self.shoal("help")[0].split("Commands:\n")[1]
                    .split("\n\n")[0].splitlines() if line.startswith("  ") and line[2] != " "]
        names = {"shoal.1"} | {f"shoal-{c.replace(' ', '-')}.1" for c in commands}
        self.assertEqual({p.name for p in pages.iterdir()}, names)
        built = (support.ROOT / "meson.build").read_text()
        for name in names - {"shoal.1"}:
            self.assertIn(f"'{name[6:-2]}'", built)
        train = (pages / "shoal-train.1").read_text()
        for text in (".TH SHOAL\\-TRAIN 1", "shoal\\-train \\- train a model", "\\-\\-batch\\-size", ".SH SEE ALSO"):
            self.assertIn(text, train)
        self.assertEqual(self.shoal("help", "--man", "train")[0], train)
        if shutil.which("man") is None:
            raise unittest.SkipTest("no man to read them with")
        for page in pages.iterdir():
            done = subprocess.run(["man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z", page], capture_output=True,
                                  text=True, env={**os.environ, "MANROFFSEQ": "", "MANWIDTH": "80"})
            self.assertEqual((done.returncode, done.stderr), (0, ""), page.name)


support.main()
