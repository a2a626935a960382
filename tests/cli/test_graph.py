"""Graphs over several tasks: shoal server, shoal run, and the example that trains inside one graph."""
import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import struct
import subprocess

from support import ROOT, SHOAL, Case, children, main

EXAMPLES = pathlib.Path(os.environ["SHOAL_BUILD"]) / "examples"


def write_npy(path, kind, shape, values):
    header = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': ({', '.join(map(str, shape))},), }}"
    header += " " * (-(len(header) + 11) % 64) + "\n"
    code = {"|u1": "B", "<f4": "f"}[kind]
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode()
                     + struct.pack(f"<{len(values)}{code}", *values))


class Examples(Case):
    """Training inside one graph, beside the strategies that do the same."""

    def example(self, name, *arguments):
        done = subprocess.run([EXAMPLES / name, *map(str, arguments)], cwd=self.folder, text=True, capture_output=True,
                              timeout=120, env=self.environment())
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_softmax_is_as_good_as_parameter_servers_and_moves_as_much(self):
        out = self.example("in_graph_softmax", 2, 3)
        accuracy, messages, between, in_all = map(float, re.findall(
            r"accuracy ([\d.]+) %; a step: (\d+) messages and (\d+) bytes between tasks, (\d+) bytes in all", out)[-1])
        self.shoal("train", "softmax", "--data", "mnist", "--strategy", "ps", "--mode", "sync", "--workers", 2, "--ps",
                   1, "--epochs", 3, "--batch-size", 200, "--lr", 0.5, "--run-dir", "ps", "--threads", 1, "--quiet")
        ps = self.summary("ps")
        self.assertEqual(ps["updates"], 450)
        self.assertAlmostEqual(accuracy / 100, ps["test_accuracy"], delta=0.005)
        self.assertEqual(messages, 4)  # parameters to each worker, gradients back
        sent = sum(t["net_sent_bytes"] for t in ps["tasks"]) / ps["steps"]
        self.assertAlmostEqual(between / sent, 1, delta=0.05)
        self.assertAlmostEqual(in_all / sent, 1, delta=0.05)

    def test_sparse_lr_learns_what_one_process_does_and_moves_what_is_touched(self):
        features = 20000
        self.shoal("data", "generate", "criteo", "--rows", 16000, "--files", 4, "--features", features, "--out",
                   "clicks", "--quiet")
        files, test = ",".join(f"clicks/tfrecords0{i}" for i in range(3)), "clicks/tfrecords03"
        for optimizer, rate in (("sgd", 0.5), ("adagrad", 0.2)):
            for workers in (1, 3):
                batch = 120 // workers
                out = self.example("in_graph_sparse_lr", files, test, features, workers, batch, optimizer, rate)
                steps, loss, sent, touched, test_loss = map(float, re.search(
                    r"(\d+) steps: loss ([\d.]+), \d+ messages and (\d+) bytes .* for (\d+) features touched\n"
                    r"test: log loss ([\d.]+)", out).groups())
                self.shoal("train", "sparse-lr", "--data", files, "--test-data", test, "--features", features,
                           "--shuffle-rows", 0, "--batch-size", 120, "--optimizer", optimizer, "--lr", rate, "--steps",
                           int(steps), "--run-dir", f"{optimizer}{workers}", "--threads", 1, "--no-checkpoints",
                           "--quiet")
                alone = self.summary(f"{optimizer}{workers}")
                self.assertEqual(alone["updates"], 100)
                self.assertAlmostEqual(test_loss, alone["test_loss"], delta=2e-5)
                self.assertAlmostEqual(loss, alone["final_loss"], delta=2e-5)
                self.assertLess(test_loss, 0.62)
                # A weight and a gradient for each feature touched, padding and headers; the table has 80,000 bytes.
                self.assertLess(sent, 1.25 * 8 * touched + 2 * workers * 200)


class Run(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        subprocess.run([EXAMPLES / "in_graph_softmax", "2", "1", "graph.pb"], cwd=cls.shared, check=True, timeout=120,
                       stdout=subprocess.DEVNULL, env={**os.environ, "SHOAL_DATA": str(ROOT / "data")})

    def setUp(self):
        super().setUp()
        shutil.copy(self.shared / "graph.pb", self.folder)
        for worker in range(2):
            pixels = [(7 * i + worker) % 251 for i in range(6 * 784)]
            write_npy(self.folder / f"x{worker}.npy", "|u1", (6, 784), pixels)
            write_npy(self.folder / f"y{worker}.npy", "|u1", (6,), [(i + worker) % 10 for i in range(6)])
        self.feeds = [f"{name}=./{name}.npy" for name in ("x0", "y0", "x1", "y1")]

    def test_one_process_and_a_cluster_agree(self):
        for name, flags in (("one", ()), ("many", ("--ps", 1, "--workers", 2))):
            out, _ = self.shoal("run", "graph.pb", *self.feeds, "--fetch", f"loss,update,w={name}.npy", "--steps", 2,
                                *flags)
            self.assertIn("loss f32[]", out)
        one, many = ((self.folder / f"{n}.npy").read_bytes() for n in ("one", "many"))
        self.assertEqual(len(one), len(many))
        floats = [struct.unpack(f"<{784 * 10}f", b[-784 * 40:]) for b in (one, many)]
        self.assertGreater(max(map(abs, floats[0])), 0.001)
        self.assertLess(max(abs(a - b) for a, b in zip(*floats)), 1e-5)

    def test_any_value_can_be_fed(self):
        out, _ = self.shoal("run", "graph.pb", "loss=2.5", "--fetch", "loss")
        self.assertEqual(out, "loss f32[] 2.5\n")
        header = b"{'descr': '|b1', 'fortran_order': False, 'shape': (), }".ljust(117) + b"\n"
        (self.folder / "one.npy").write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + b"\x01")
        self.assertEqual(self.shoal("run", "graph.pb", "loss=one.npy", "--fetch", "loss")[0], "loss f32[] 1\n")

    def test_explains_placement(self):
        out, _ = self.shoal("run", "graph.pb", "--ps", 1, "--workers", 2, "--explain-placement")
        self.assertRegex(out, r"w +variable +/job:ps/task:0 +asked for")
        self.assertIn("/job:worker/task:0 to /job:ps/task:0: at most 31404 bytes", out)
        _, error = self.shoal("run", "graph.pb", "--workers", 2, "--explain-placement", expect=2)
        self.assertIn("the cluster has /job:worker (2 tasks)", error)

    def test_errors(self):
        _, error = self.shoal("run", "graph.pb", "--fetch", "nothing", expect=2)
        self.assertIn("the graph has no value 'nothing'", error)
        _, error = self.shoal("run", "graph.pb", "los=1", "--fetch", "loss", expect=2)
        self.assertIn("the graph has no value 'los' (did you mean loss?)", error)
        _, error = self.shoal("run", "graph.pb", "loss=1", "loss=2", "--fetch", "loss", expect=2)
        self.assertIn("'loss=2' is fed twice", error)
        write_npy(self.folder / "large.npy", "<f4", (2,), [3, 300])
        for wrong, words in (("y0=large.npy", "large.npy: 300 at place 1 cannot be u8"),
                             ("batch0=0.5", "0.5 cannot be i32")):
            _, error = self.shoal("run", "graph.pb", wrong, "--fetch", "loss", expect=1)
            self.assertIn(words, error)
        _, error = self.shoal("run", "graph.pb", expect=2)
        self.assertIn("--list", error)
        out, _ = self.shoal("run", "graph.pb", "--list")
        self.assertRegex(out, r"(?s)To be fed:.*  batch0 i32\[\?\]  /job:worker/task:0\n.*Variables:.*  w f32\[784,10\]"
                         r".*Outputs.*  loss f32\[\]")
        listed = json.loads(self.shoal("run", "graph.pb", "--list", "--json")[0])
        self.assertIn({"name": "batch0", "dtype": "i32", "shape": [None], "device": "/job:worker/task:0"},
                      listed["placeholders"])
        (w,) = (v for v in listed["variables"] if v["name"] == "w")
        self.assertEqual((w["dtype"], w["shape"]), ("f32", [784, 10]))
        self.assertIn("loss", [v["name"] for v in listed["results"]])
        self.assertIn("needs --list", self.shoal("run", "graph.pb", "--json", "--fetch", "loss", expect=2)[1])
        _, error = self.shoal("run", "graph.pb", "--fetch", "loss", "--ps", 1, "--workers", 2, expect=2)
        self.assertIn("placeholder 'batch0' is needed but not fed", error)
        (self.folder / "broken.pb").write_bytes((self.folder / "graph.pb").read_bytes()[:-200])
        _, error = self.shoal("run", "broken.pb", "--fetch", "loss", expect=1)
        self.assertIn("broken.pb", error)

    @contextlib.contextmanager
    def cluster(self, *flags, before=lambda task: []):
        """Servers of a described cluster, which must end well when they are told to; before: put before the command."""
        sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(3)]
        addresses = [f"127.0.0.1:{s.getsockname()[1]}" for s in sockets]
        for s in sockets:
            s.close()
        cluster = {"ps": addresses[:1], "worker": addresses[1:]}
        (self.folder / "cluster.json").write_text(json.dumps({"cluster": cluster}))
        servers = [subprocess.Popen([*before(task), SHOAL, "server", "--cluster", "cluster.json", "--task", task,
                                     "--threads", "1", *flags], cwd=self.folder, stdout=subprocess.DEVNULL)
                   for task in ("ps:0", "worker:0", "worker:1")]
        try:
            yield
        finally:
            for s in servers:
                for child in children(s.pid) if s.args[0] != SHOAL else [s.pid]:
                    os.kill(child, signal.SIGTERM)
            codes = [s.wait(timeout=20) for s in servers]
        self.assertEqual(codes, [0, 0, 0])

    def test_described_cluster_with_keys(self):
        self.shoal("keygen", "keys")
        with self.cluster("--keys", "keys"):
            out, _ = self.shoal("run", "graph.pb", *self.feeds, "--fetch", "loss", "--cluster", "cluster.json",
                                "--keys", "keys")
            self.assertIn("loss f32[] 2.3025", out)

    def check_timeline(self, steps):
        """Rows of all tasks, their operators, and each message sent before it was taken in, with as many bytes."""
        file = json.loads((self.folder / "t.json").read_text())
        names = {e["pid"]: e["args"]["name"] for e in file["traceEvents"] if e["name"] == "process_name"}
        self.assertEqual(sorted(names.values()), ["client/0", "ps/0", "worker/0", "worker/1"])
        self.assertEqual(file["otherData"], {"clock": "client/0", "lost": 0})
        spans = [{**e, "task": names[e["pid"]], "end": e["ts"] + e["dur"]} for e in file["traceEvents"]
                 if e["ph"] == "X"]
        of = lambda task, name: [s for s in spans if s["task"] == task and s["name"].startswith(name)]
        slack = 300  # microseconds that clocks of different machines may be apart
        runs = of("client/0", "run")
        self.assertEqual([r["args"]["step"] for r in runs], list(range(steps)))
        for task in ("ps/0", "worker/0", "worker/1"):
            self.assertEqual(len(of(task, "run")), steps)
            for outer, inner in zip(runs, of(task, "run")):
                self.assertLess(outer["ts"] - slack, inner["ts"])
                self.assertGreater(outer["end"] + slack, inner["end"])
        for worker in ("worker/0", "worker/1"):
            self.assertEqual(len(of(worker, "matmul gradients")), steps)
            for source, target in ((worker, "ps/0"), ("ps/0", worker)):
                sent, taken = of(source, f"send to {target}"), of(target, f"take in from {source}")
                self.assertEqual((len(sent), len(taken)), (steps, steps))
                for a, b in zip(sent, taken):
                    self.assertLess(a["ts"], b["end"] + slack)
                    self.assertEqual(a["args"]["bytes"], b["args"]["bytes"])
                    self.assertGreater(a["args"]["bytes"], 31400)
        self.assertEqual(len(of("ps/0", "assign_add")), 2 * steps)
        self.assertTrue(of("ps/0", "wait for worker/"))

    def test_timeline(self):
        out, _ = self.shoal("run", "graph.pb", *self.feeds, "--fetch", "loss,update", "--steps", 5, "--ps", 1,
                            "--workers", 2, "--trace", "t.json")
        self.check_timeline(5)
        out, _ = self.shoal("trace", "t.json")
        self.assertRegex(out, r"send to ps/0 .* kB")
        self.assertRegex(out, r"worker/1 +1 ")
        self.shoal("run", "graph.pb", *self.feeds, "--fetch", "loss", "--trace", "one.json")
        self.assertIn("reduce_mean", self.shoal("trace", "one.json")[0])

    def test_timeline_of_machines_with_other_clocks(self):
        ahead = {"ps:0": 86400, "worker:1": 12345}
        other = ["unshare", "--time", "--fork", "--monotonic"]
        if subprocess.run([*other, "5", "true"], capture_output=True).returncode:
            self.skipTest("clocks cannot be set apart here")
        with self.cluster(before=lambda task: [*other, str(ahead[task])] if task in ahead else []):
            self.shoal("run", "graph.pb", *self.feeds, "--fetch", "loss,update", "--steps", 5, "--cluster",
                       "cluster.json", "--trace", "t.json")
        self.check_timeline(5)


if __name__ == "__main__":
    main()
