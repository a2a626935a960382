"""What a run records about itself, read back by others: event files, samples, graph."""
import json
import os
import pathlib
import shutil
import socket
import struct
import subprocess
import sys
import textwrap
import time
import unittest

import event_files
from support import Case, SHOAL, main

# A Python that has the package tensorboard; this one, if not said otherwise.
TENSORBOARD = os.environ.get("SHOAL_TENSORBOARD", sys.executable)


def f32(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


class ObserveCase(Case):
    def lines(self, run, kind=None, task=None):
        every = [json.loads(line) for line in (self.folder / run / "metrics.jsonl").read_text().splitlines()]
        return [l for l in every if kind in (None, l["kind"]) and task in (None, l["task"])]


    def describe(self, model, *flags, slow=()):
        """A server and two workers, each started by itself; `slow`: flags of worker 1 alone."""
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            address = "127.0.0.1:%d" % listener.getsockname()[1]
        (self.folder / "c.json").write_text(json.dumps({"cluster": {"ps": [address], "worker": ["a:1", "b:1"]}}))
        tasks = [subprocess.Popen([SHOAL, "train", model, "--data", str(self.data), "--run-dir", "r", "--batch-size", "16",
                                   "--threads", "1", "--cluster", "c.json", "--task", task, *map(str, flags),
                                   *(slow if task == "worker:1" else ())], cwd=self.folder, env=self.environment(),
                                  stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
                 for task in ("ps:0", "worker:0", "worker:1")]
        try:
            for task in tasks:
                _, err = task.communicate(timeout=60)
                self.assertEqual(task.returncode, 0, err)
        finally:
            for task in tasks:
                task.kill()


class Events(ObserveCase):
    def check_scalars(self, run, folder, task, scalars, least=5):
        """The event file's scalars are those of metrics.jsonl, step by step."""
        steps = self.lines(run, "step", task)
        self.assertGreaterEqual(len(steps), least)
        for tag, key in (("loss", "loss"), ("accuracy", "accuracy"), ("learning_rate", "rate"),
                         ("examples_per_second", "examples_per_second")):
            expected = [(l["step"], l[key]) for l in steps if l[key] is not None]
            got = scalars(tag)
            self.assertEqual([s for s, _ in got], [s for s, _ in expected], f"{folder} {tag}")
            for (_, a), (_, b) in zip(got, expected):
                self.assertAlmostEqual(a, f32(b), delta=1e-6 * abs(b) + 1e-12)

    def test_one_process(self):
        self.train("lenet", "r", "--epochs", 3, "--batch-size", 16, "--log-every", 4, "--histograms", 30,
                   "--validation-split", 0.25)
        seen = event_files.read(self.folder / "r")
        self.assertEqual(seen["versions"], 1)
        self.check_scalars("r", "r", "worker/0", seen["scalars"].get)
        self.assertIn("global_steps_per_second", seen["scalars"])
        self.assertIn("input_wait_share", seen["scalars"])
        self.assertIn("| batch-size | 16 |", seen["texts"]["settings"])
        # 3 x 24 steps: at 0, 30 and 60; every number is in one bucket.
        for tag, count in (("weights/dense/kernel", 48000), ("gradients/conv2d/bias", 6)):
            self.assertEqual([step for step, _ in seen["histograms"][tag]], [0, 30, 60])
            for _, h in seen["histograms"][tag]:
                buckets = struct.unpack(f"<{len(h[7][0]) // 8}d", h[7][0])
                limits = struct.unpack(f"<{len(h[6][0]) // 8}d", h[6][0])
                self.assertEqual(sum(buckets), count)
                self.assertEqual(struct.unpack("<d", h[3][0])[0], count)
                self.assertEqual(limits[-1], struct.unpack("<d", h[2][0])[0])
        held_out = event_files.read(self.folder / "r" / "eval")["scalars"]
        epochs = self.lines("r", "epoch")
        self.assertEqual([s for s, _ in held_out["accuracy"]], [l["step"] for l in epochs])
        self.assertAlmostEqual(held_out["accuracy"][-1][1], epochs[-1]["validation_accuracy"], places=6)
        self.assertAlmostEqual(held_out["test/accuracy"][-1][1], self.summary("r")["test_accuracy"], places=6)

    def test_histograms_change_nothing(self):
        for run, flags in (("plain", ()), ("watched", ("--histograms", 3))):
            self.train("lenet", run, "--epochs", 1, "--batch-size", 32, *flags)
        self.assertEqual(self.summary("plain")["final_loss"], self.summary("watched")["final_loss"])
        self.assertEqual((self.folder / "plain/model.safetensors").read_bytes(),
                         (self.folder / "watched/model.safetensors").read_bytes())

    def test_graph(self):
        self.train("softmax", "r", "--epochs", 1)
        drawn = json.loads((self.folder / "r/graph.json").read_text())
        names = [n["name"] for n in drawn["nodes"]]
        self.assertEqual(len(names), len(set(names)))
        for at, node in enumerate(drawn["nodes"]):
            for name in node["inputs"]:
                self.assertIn(name.split(":")[0], names[:at], "inputs come first")
        kernel = next(n for n in drawn["nodes"] if n["name"] == "dense/kernel")
        self.assertEqual(kernel["outputs"], [["f32", [784, 10]]])
        self.assertLessEqual({"forward", "gradient", "update", "state"}, {n["part"] for n in drawn["nodes"]})
        nodes = [event_files.fields(n) for n in event_files.fields(event_files.read(self.folder / "r")["graph"])[1]]
        self.assertEqual([n[1][0].decode() for n in nodes], names)
        self.assertEqual([[i.decode() for i in n.get(3, [])] for n in nodes], [n["inputs"] for n in drawn["nodes"]])

    def test_cluster(self):
        """Each task writes into a folder of its own; variables are where their server is."""
        self.train("softmax", "r", "--epochs", 20, "--batch-size", 16, "--workers", 2, "--ps", 2, "--mode", "async",
                   "--log-every", 8, "--sample-every", 0.05)
        for folder, task in (("r", "worker/0"), ("r/worker-1", "worker/1")):
            seen = event_files.read(self.folder / folder)
            # On a busy machine one of them may take nearly all rows.
            self.check_scalars("r", folder, task, lambda tag: seen["scalars"].get(tag, []), least=0)
            self.assertTrue("staleness" in seen["scalars"] or not self.lines("r", "step", task))
        self.assertGreater(len(self.lines("r", "step")), 5)
        for folder in ("r/ps-0", "r/ps-1"):
            self.assertIn("resources/cpu_percent", event_files.read(self.folder / folder)["scalars"])
        devices = {n["device"] for n in json.loads((self.folder / "r/graph.json").read_text())["nodes"]}
        self.assertIn("/job:worker/task:0", devices)
        self.assertTrue(any(d.startswith("/job:ps/task:") for d in devices), devices)
        self.assertEqual({l["task"] for l in self.lines("r", "task")}, {"ps/0", "ps/1", "worker/0", "worker/1"})
        self.assertEqual({l["task"] for l in self.lines("r", "host")}, {"worker/0"})

    def test_rates_while_worker_0_validates(self):
        """Asynchronous workers go on meanwhile: what they make is made in that time, too."""
        self.train("lenet", "r", "--workers", 2, "--ps", 1, "--mode", "async", "--validation-split", 0.75, "--epochs", 40,
                   "--batch-size", 4, "--log-every", 8)
        lines = [l for l in self.lines("r", task="worker/0") if l["kind"] in ("step", "epoch")]
        rated = [l for l in lines if l["examples_per_second"]]
        over = sum((b["examples"] - a["examples"]) / b["examples_per_second"] for a, b in zip(rated, rated[1:]))
        wall = rated[-1]["time"] - rated[0]["time"]
        self.assertGreater(over, 0.8 * wall - 0.1, "seconds that the rates are over")
        self.assertLess(over, 1.2 * wall + 0.1)
        summary = self.summary("r")
        self.assertGreater(summary["validation_seconds"], 0)
        self.assertAlmostEqual(summary["run_examples"] / summary["examples_seconds"], summary["examples_per_second"])
        self.assertGreater(summary["examples_seconds"], 0.8 * wall - 0.1)

    def test_resumed(self):
        self.train("softmax", "r", "--epochs", 2, "--log-every", 1)
        self.train("softmax", "r", "--resume", "--epochs", 4)
        seen = event_files.read(self.folder / "r")
        self.assertEqual(seen["versions"], 2)
        self.assertEqual(max(s for s, _ in seen["scalars"]["loss"]), 12)

    def test_tensorboard_agrees(self):
        """The real loader sees what the decoder of these tests sees."""
        program = textwrap.dedent("""
            import json, sys
            from tensorboard.backend.event_processing import event_accumulator
            a = event_accumulator.EventAccumulator(sys.argv[1], {"scalars": 0, "histograms": 0, "tensors": 0})
            a.Reload()
            tags = a.Tags()
            print(json.dumps({
                "scalars": {t: [(e.step, e.value) for e in a.Scalars(t)] for t in tags["scalars"]},
                "histograms": {t: [e.step for e in a.Histograms(t)] for t in tags["histograms"]},
                "texts": tags["tensors"], "nodes": [n.name for n in a.Graph().node],
                "shape": [d.size for n in a.Graph().node if n.name == "train/dense/matmul"
                          for d in n.attr["_output_shapes"].list.shape[0].dim]}))""")
        if subprocess.run([TENSORBOARD, "-c", "import tensorboard"], capture_output=True).returncode:
            self.skipTest(f"{TENSORBOARD} has no package tensorboard: name a Python that has in SHOAL_TENSORBOARD")
        self.train("softmax", "r", "--epochs", 4, "--batch-size", 16, "--log-every", 3, "--histograms", 50)
        done = subprocess.run([TENSORBOARD, "-c", program, self.folder / "r"], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        theirs, ours = json.loads(done.stdout), event_files.read(self.folder / "r")
        self.assertEqual({t: [tuple(e) for e in v] for t, v in theirs["scalars"].items()}, ours["scalars"])
        self.assertEqual(theirs["histograms"], {t: [s for s, _ in v] for t, v in ours["histograms"].items()})
        self.assertEqual(theirs["texts"], ["settings"])
        self.assertEqual(theirs["shape"], [-1, 10])
        self.assertEqual(theirs["nodes"],
                         [n["name"] for n in json.loads((self.folder / "r/graph.json").read_text())["nodes"]])


class Timeline(ObserveCase):
    def trace(self, run):
        file = json.loads((self.folder / run / "trace.json").read_text())
        names = {e["pid"]: e["args"]["name"] for e in file["traceEvents"] if e["name"] == "process_name"}
        spans = [{**e, "task": names[e["pid"]], "end": e["ts"] + e["dur"]} for e in file["traceEvents"] if e["ph"] == "X"]
        self.assertEqual(min(s["ts"] for s in spans), 0)
        return list(names.values()), spans

    def test_operators(self):
        self.train("lenet", "r", "--steps", 40, "--batch-size", 32, "--trace", 5, "--threads", 2)
        tasks, spans = self.trace("r")
        self.assertEqual(tasks, ["worker/0"])
        steps = [s for s in spans if s["cat"] == "step" and s["name"] == "step"]
        self.assertEqual([s["args"]["step"] for s in steps], list(range(10, 15)))
        ops = [s for s in spans if s["cat"] == "op"]
        self.assertEqual({s["tid"] for s in ops}, {0, 1}, "both threads")
        for op in ops:
            step = steps[op["args"]["step"] - 10]
            self.assertTrue(step["ts"] <= op["ts"] + 0.002 and op["end"] <= step["end"] + 0.002, op)
        # Operations of a step: two for each multiplication of the second convolution, whoever does which part of it.
        name = next(s["name"] for s in ops if s["name"].startswith("conv_block train") and "_1" in s["name"])
        flops = sum(s["args"]["flops"] for s in ops if s["name"] == name) / 5
        self.assertAlmostEqual(flops, 32 * 2 * 10 * 10 * 16 * 25 * 6, delta=0.1 * flops)
        out, _ = self.shoal("trace", "r")
        self.assertIn("conv_block", out)
        rows = {r["name"]: r for r in json.loads(self.shoal("trace", "r", "--json")[0])}
        # The machine's rate of multiply-adds is one figure; what operators reached of it is stated for each and for all.
        peaks = {round(r["possible_flops"] / r["seconds"] / 1e9, 3) for r in rows.values()}
        self.assertEqual(len(peaks), 1, peaks)
        self.assertTrue(1 < peaks.pop() < 1000)
        all_ops = [r for r in rows.values() if r["kind"] == "op"]
        share = sum(r["flops"] for r in all_ops) / sum(r["possible_flops"] for r in all_ops)
        self.assertIn(f"{100 * share:.1f} % of its FMA peak", out)
        self.assertTrue(0.001 < share < 2, share)
        line = next(line for line in out.splitlines() if line.startswith(name))
        self.assertIn(f"{100 * rows[name]['flops'] / rows[name]['possible_flops']:.2f} %", line)
        self.assertEqual(rows[name]["calls"], sum(s["name"] == name for s in ops))
        self.assertAlmostEqual(rows[name]["seconds"], sum(s["dur"] for s in ops if s["name"] == name) / 1e6, places=6)

    def test_mirrored(self):
        """Each replica's operators stand on its own thread."""
        self.shoal("train", "lenet", "--data", self.data, "--run-dir", "r", "--strategy", "mirrored", "--workers", 2,
                   "--steps", 30, "--batch-size", 16, "--trace", 5)
        _, spans = self.trace("r")
        ops = [s for s in spans if s["cat"] == "op" and s["name"].startswith("conv_block train")]
        self.assertEqual({s["tid"] for s in ops}, {0, 1})
        self.assertEqual(len(ops), 2 * 2 * 5, "two convolutions, on two replicas, in five steps")

    def check_exchange(self, tasks, spans, workers):
        """Messages and waits are there, and server and workers share a clock: a gradient is worked on after it was sent
        and before its answer was taken in."""
        self.assertEqual(tasks, ["ps/0"] + [f"worker/{w}" for w in range(workers)])
        for w in range(workers):
            own = [s for s in spans if s["task"] == f"worker/{w}"]
            sent, waited, taken = ([s for s in own if s["name"] == f"{what} ps/0"]
                                   for what in ("send to", "wait for", "take in from"))
            worked = [s for s in spans if s["task"] == "ps/0" and s["name"] == f"gradient of worker/{w}"]
            self.assertGreater(len(sent), 3)
            self.assertTrue(waited and taken and worked)
            self.assertGreater(sent[0]["args"]["bytes"], 7850 * 4)
            found = 0
            for message in worked:
                before = [s for s in sent if s["ts"] <= message["ts"]]
                after = [s for s in taken if s["end"] >= message["ts"]]
                found += bool(before and after and after[0]["end"] > before[-1]["ts"] and
                              before[-1]["args"]["step"] == after[0]["args"]["step"])
            self.assertGreater(found, len(worked) // 2)

    def test_cluster(self):
        self.train("softmax", "r", "--steps", 60, "--batch-size", 16, "--workers", 2, "--trace", 8)
        self.check_exchange(*self.trace("r"), 2)

    def test_described(self):
        """Of tasks that nobody started together, samples and timeline come through the servers."""
        self.describe("softmax", "--epochs", 150, "--trace", 8, "--sample-every", 0.05)
        self.assertEqual({l["task"] for l in self.lines("r", "task")}, {"ps/0", "worker/0", "worker/1"})
        self.check_exchange(*self.trace("r"), 2)
        for task in self.summary("r")["tasks"]:
            self.assertNotIn("trace", task)
            self.assertNotIn("kept_samples", task)

    def test_no_timeline(self):
        self.train("softmax", "r", "--epochs", 1)
        self.assertFalse((self.folder / "r/trace.json").exists())
        _, err = self.shoal("trace", "r", expect=2)
        self.assertIn("--trace", err)
        (self.folder / "r/trace.json").write_text('{"traceEvents": [{"ph": "X", "cat": "foreign"}]}')
        _, err = self.shoal("trace", "r", expect=1)
        self.assertIn("event 0", err)


class Samples(ObserveCase):
    def test_against_time(self):
        """Processor seconds and memory are those that the system counted for the process."""
        if not shutil.which("time"):
            self.skipTest("no /usr/bin/time here")
        report = self.folder / "time"
        done = subprocess.run(["time", "-f", "%U %S %M", "-o", str(report), SHOAL, "train", "lenet", "--data",
                               str(self.data), "--run-dir", "r", "--threads", "1", "--steps", "3000", "--batch-size",
                               "16", "--no-checkpoints", "--sample-every", "0.2"],
                              cwd=self.folder, capture_output=True, text=True, env=self.environment(), timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        user, system, kilobytes = map(float, report.read_text().split())
        task = self.summary("r")["tasks"][0]
        measured = task["cpu_user_seconds"] + task["cpu_system_seconds"]
        # What runs before and after training is not in it: reading the data, the test. The clock of `time` has 10 ms.
        self.assertLessEqual(measured, user + system + 0.02)
        self.assertGreater(measured, 0.98 * (user + system) - 0.08)
        self.assertAlmostEqual(task["rss_peak_bytes"], kilobytes * 1024, delta=0.02 * kilobytes * 1024)
        samples = self.lines("r", "task")
        self.assertEqual(len(samples), task["samples"])
        self.assertAlmostEqual(sum(s["cpu_percent"] / 100 * s["interval"] for s in samples), measured,
                               delta=0.02 * measured)
        self.assertAlmostEqual(max(s["cpu_percent"] for s in samples), task["cpu_percent_peak"], places=5)

    def test_against_interface(self):
        """Over TCP, in a network of its own: what the tasks count is what went through the interface."""
        script = textwrap.dedent(f"""
            ip link set lo up || exit 77
            {SHOAL} train softmax --data {self.data} --run-dir r --threads 1 --epochs 180 --batch-size 16 --workers 2 \\
                --ps 1 --transport tls --no-checkpoints --sample-every 0.1 --quiet >/dev/null || exit 1
            grep lo: /proc/net/dev""")
        done = subprocess.run(["unshare", "-n", "sh", "-c", script], cwd=self.folder, capture_output=True, text=True,
                              env=self.environment(), timeout=120)
        if done.returncode == 77 or "unshare" in done.stderr:
            self.skipTest(f"no network of its own here: {done.stderr.strip()}")
        self.assertEqual(done.returncode, 0, done.stderr)
        numbers = [int(n) for n in done.stdout.split(":")[1].split()]
        carried, packets = numbers[0], numbers[1]
        payload = carried - 66 * packets  # Ethernet's, IP's and TCP's heads
        tasks = self.summary("r")["tasks"]
        sent, received = (sum(t[f"net_{way}_bytes"] for t in tasks) for way in ("sent", "received"))
        self.assertAlmostEqual(sent, payload, delta=0.02 * payload)
        self.assertAlmostEqual(received, payload, delta=0.02 * payload)
        host = sum(l["interfaces"]["lo"][0] * l["interval"] for l in self.lines("r", "host"))
        self.assertAlmostEqual(host, carried, delta=0.02 * carried)


class Verdict(ObserveCase):
    """Each of the causes made for real: the verdict names it."""

    def verdict(self, cause, run="r"):
        summary = self.summary(run)
        verdict = summary["verdict"]
        self.assertEqual(verdict["bottleneck"], cause, json.dumps([verdict, [t.get("time") for t in summary["tasks"]]]))
        self.assertAlmostEqual(sum(verdict["shares"].values()), 1, places=6)
        return verdict, {w["kind"]: w for w in verdict["warnings"]}

    def test_computing(self):
        out, _ = self.train("lenet", "r", "--epochs", 6, "--kernels", "generic")
        verdict, _ = self.verdict("computing")
        self.assertIn(verdict["text"], out)
        self.assertIsNone(verdict["next_worker"])

    def test_slow_worker(self):
        for _ in range(3):
            shutil.rmtree(self.folder / "r", ignore_errors=True)
            self.describe("lenet", "--epochs", 5, slow=("--kernels", "generic"))
            verdict = self.summary("r")["verdict"]
            warnings = {w["kind"]: w for w in verdict["warnings"]}
            self.assertEqual(warnings["slow_task"]["task"], "worker/1")
            self.assertIn("batch_grew", warnings)
            # Where other programs take the processors, messages can take longer than the slow worker; the run says so.
            if verdict["bottleneck"] == "barrier" or "busy_host" not in warnings:
                break
        else:
            self.skipTest(warnings["busy_host"]["text"])
        self.verdict("barrier")
        self.assertIn("worker/1", verdict["text"])
        # On a machine of two processors, or one that has other work, nothing is foretold, and that is said.
        if verdict["next_worker"]:
            self.assertEqual(verdict["next_worker"]["workers"], 3)
        elif verdict["no_forecast"]:
            self.assertIn("No forecast for 3 workers", verdict["no_forecast"])
        else:
            self.assertLess(self.summary("r")["seconds"], 1)  # too short a run to say anything

    def test_slow_network(self):
        script = textwrap.dedent(f"""
            ip link set lo up && tc qdisc add dev lo root tbf rate 20mbit burst 64k latency 400ms || exit 77
            exec {SHOAL} train softmax --data {self.data} --run-dir r --threads 1 --steps 25 --batch-size 16 --workers 2 \\
                --ps 1 --transport tls --no-checkpoints --lr 1""")
        done = subprocess.run(["unshare", "-n", "sh", "-c", script], cwd=self.folder, capture_output=True, text=True,
                              env=self.environment(), timeout=120)
        if done.returncode == 77 or "unshare" in done.stderr:
            self.skipTest(f"no network of its own here: {done.stderr.strip()}")
        self.assertEqual(done.returncode, 0, done.stderr)
        _, warnings = self.verdict("network")
        self.assertNotIn("batch_grew", warnings)

    def test_slow_input(self):
        """Large pictures, that take longer to decode than to learn from."""
        self.shoal("data", "generate", "images", "--out", "pictures", "--rows", 20, "--size", "300x400x3")
        self.shoal("train", "softmax", "--data", "pictures", "--stream", "--steps", 60, "--batch-size", 10, "--threads", 1,
                   "--run-dir", "r", "--no-checkpoints")
        _, warnings = self.verdict("input")
        self.assertEqual(warnings["input_starves"]["task"], "worker/0")


class Forecast(ObserveCase):
    """What is foretold for two workers is what two workers reach."""
    LOADED = 0.15  # share of the processors in use by other programs, from which on no run can be measured
    ATTEMPTS = 3

    def load(self):
        """The share of the processors in use just now."""
        def ticks():
            fields = [int(n) for n in pathlib.Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
            return sum(fields), fields[3] + fields[4]
        (all_before, idle_before), _, (all_after, idle_after) = ticks(), time.sleep(0.5), ticks()
        return 1 - (idle_after - idle_before) / max(all_after - all_before, 1)

    def measure(self, mode, workers):
        """The summary, and the share of the processors that other programs had meanwhile."""
        run = f"{mode}{workers}"
        shutil.rmtree(self.folder / run, ignore_errors=True)
        self.shoal("train", "lenet", "--data", self.data, "--run-dir", run, "--workers", workers, "--ps", 1,
                   "--mode", mode, "--epochs", 120, "--no-checkpoints")
        summary = self.summary(run)
        host = summary["hosts"][0]
        own = sum(t["cpu_percent_mean"] for t in summary["tasks"]) / host["cores"]
        return summary, (host["cpu_percent_mean"] - own) / 100

    def check(self, mode):
        tried = []
        for _ in range(self.ATTEMPTS):
            load = self.load()
            if load > self.LOADED:
                tried.append(f"other programs have {100 * load:.0f} % of the machine")
                continue
            one, load = self.measure(mode, 1)
            foretold = one["verdict"]["next_worker"]
            if not foretold:
                self.assertTrue(one["verdict"]["no_forecast"] or one["seconds"] < 1, one["verdict"])
            if not foretold or load > self.LOADED:
                tried.append(f"other programs had {100 * load:.0f} % of the machine")
                continue
            two, load = self.measure(mode, 2)
            expected, reached = foretold["examples_per_second"], two["examples_per_second"]
            if load <= self.LOADED and abs(expected / reached - 1) <= 0.2:
                return
            tried.append(f"{expected:.0f} examples/s foretold, {reached:.0f} reached, others {100 * load:.0f} %")
            if load <= self.LOADED:
                tried[-1] += ": wrong"
        wrong = [t for t in tried if t.endswith("wrong")]
        self.assertLess(len(wrong), 2, tried)
        self.skipTest(f"this machine is too busy to measure on: {'; '.join(tried)}")

    def test_sync(self):
        if os.cpu_count() < 2:
            self.skipTest("one processor: nothing is foretold for workers that share it")
        self.check("sync")

    def test_async(self):
        self.check("async")


if __name__ == "__main__":
    main()
