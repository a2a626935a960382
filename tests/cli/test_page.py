"""shoal report and shoal dash without a browser: what is written and served, to whom, and what it costs."""
import html.parser
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import time
import unittest
import urllib.error
import urllib.request

import support

HOSTILE = "</script><img src=x onerror=alert(1)>&\"'"


def has_page():
    done = subprocess.run([support.SHOAL, "report"], capture_output=True, text=True, timeout=60)
    return "holds no page" not in done.stderr


class Scripts(html.parser.HTMLParser):
    """Collects what stands in script elements, and any element that is not the page's own."""

    def __init__(self):
        super().__init__()
        self.scripts, self.tags, self.inside = [], [], None

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        if tag == "script":
            self.inside = dict(attributes).get("type", "code")

    def handle_endtag(self, tag):
        if tag == "script":
            self.inside = None

    def handle_data(self, data):
        if self.inside:
            self.scripts.append((self.inside, data))


def page_data(path):
    parser = Scripts()
    parser.feed(path.read_text())
    return json.loads("".join(d for kind, d in parser.scripts if kind == "application/json")), parser


class Dash:
    """A dashboard of its own for a test."""

    def __init__(self, folder, *flags, env=None):
        self.process = subprocess.Popen([support.SHOAL, "dash", str(folder), "--port", "0", *flags], text=True,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env)
        line = self.process.stdout.readline()
        if "http://" not in line:
            raise AssertionError(self.process.communicate(timeout=10)[1])
        self.address = re.search(r"http://\S+", line)[0]
        self.base = self.address.split("?")[0]
        self.port = int(self.base.rstrip("/").rsplit(":", 1)[1])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGINT)
        out, err = self.process.communicate(timeout=20)
        if self.process.returncode:
            raise AssertionError(f"the dashboard ended with {self.process.returncode}: {err}")

    def get(self, path, headers=None, expect=200, method="GET"):
        request = urllib.request.Request(self.base + path.lstrip("/"), headers=headers or {}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=20) as answer:
                status, body, found = answer.status, answer.read(), answer.headers
        except urllib.error.HTTPError as error:
            status, body, found = error.code, error.read(), error.headers
        if status != expect:
            raise AssertionError(f"{path}: {status} instead of {expect}: {body[:200]}")
        return body, found

    def json(self, path):
        return json.loads(self.get(path)[0])

    def raw(self, request):
        """Bytes as they are: what no well-behaved client would send."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=10) as s:
            answer = b""
            try:
                s.sendall(request)
                s.shutdown(socket.SHUT_WR)
                while piece := s.recv(65536):
                    answer += piece
            except OSError:  # it may hang up before all has been sent
                pass
        return answer

    def seconds(self):
        """Processor time of the server so far."""
        words = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")

    def memory(self):
        """Most it ever held, in bytes."""
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return 1024 * int(re.search(r"VmHWM:\s*(\d+)", status)[1])


def write_long_run(folder, points):
    folder.mkdir(parents=True)
    with open(folder / "metrics.jsonl", "w") as f:
        for i in range(1, points + 1):
            loss = 1e9 if i == points // 2 else 2.0 / (1 + i / 1000)
            f.write(f'{{"kind":"step","time":{1.7e9 + i / 50},"task":"worker/0","step":{i},"epoch":1,"examples":{64 * i},'
                    f'"loss":{loss:.9f},"accuracy":0.5,"examples_per_second":64000.123,"seconds":{i / 1000},"rate":0.1}}\n')


@unittest.skipUnless(has_page(), "this build has no page")
class Page(support.Case):
    def test_report_holds_what_the_runs_measured(self):
        self.train("softmax", "runs/one", "--epochs", 3)
        self.train("softmax", "runs/two", "--epochs", 2, "--batch-size", 32)
        out, _ = self.shoal("report", "runs/two", "runs/one", "-o", "page.html")
        self.assertIn("2 runs in page.html", out)
        data, _ = page_data(self.folder / "page.html")
        self.assertEqual([r["name"] for r in data["runs"]], ["two", "one"])
        for run in data["runs"]:
            summary = self.summary(f"runs/{run['name']}")
            self.assertAlmostEqual(run["summary"]["test_accuracy"], summary["test_accuracy"])
            lines = map(json.loads, (self.folder / "runs" / run["name"] / "metrics.jsonl").read_text().splitlines())
            epochs = [x for x in lines if x["kind"] == "epoch"]
            track = next(t for t in run["tracks"] if t["kind"] == "epoch")
            self.assertEqual(track["columns"]["step"], [x["step"] for x in epochs])
            for mine, true in zip(track["columns"]["loss"], (x["loss"] for x in epochs)):
                self.assertAlmostEqual(mine, true, delta=1e-5 * abs(true))

    def test_report_needs_nothing_from_elsewhere(self):
        self.train("softmax", "runs/one", "--epochs", 1)
        self.shoal("report", "runs", "--out", "page.html")
        text = (self.folder / "page.html").read_text()
        self.assertNotRegex(text, r"(src|href)=[\"']?(https?:)?//")
        self.assertRegex(text, r"Content-Security-Policy\" content=\"default-src 'none'; script-src 'sha256-")
        self.assertIn("Permission is hereby granted", text)  # the licence of what is embedded

    def test_hostile_names_stay_names(self):
        folder = self.folder / "runs" / HOSTILE.replace("/", "\u2215")
        self.train("softmax", "runs/plain", "--epochs", 1)
        (self.folder / "runs" / "plain").rename(folder)
        summary = json.loads((folder / "summary.json").read_text())
        summary["error"] = summary["model"] = HOSTILE
        (folder / "summary.json").write_text(json.dumps(summary))
        with open(folder / "metrics.jsonl", "a") as f:
            f.write(json.dumps({"kind": HOSTILE, "step": 1, HOSTILE: 2}) + "\n")
        self.shoal("report", "runs", "-o", "page.html")
        data, parser = page_data(self.folder / "page.html")
        self.assertEqual(data["runs"][0]["summary"]["error"], HOSTILE)
        self.assertNotIn("img", parser.tags)
        self.assertEqual(parser.tags.count("script"), 2)

    def test_broken_files_are_no_trouble(self):
        run = self.folder / "runs" / "broken"
        run.mkdir(parents=True)
        (run / "summary.json").write_text("{ not json")
        (run / "metrics.jsonl").write_text('garbage\n{"kind":"step"}\n{"kind":"step","step":1e999,"loss":null}\n[1,2]\n'
                                           '{"kind":"step","step":5,"loss":-1.5e-3,"extra":[1]}\n{"kind":"step","st')
        (run / "trace.json").write_text('{"traceEvents":[{"ph":"X","name":"a","ts":1,"dur":2,"pid":0,"tid":0},{"ph"')
        self.shoal("report", "runs", "-o", "page.html")
        data, _ = page_data(self.folder / "page.html")
        track = next(t for t in data["runs"][0]["tracks"] if t["kind"] == "step")
        self.assertEqual(track["columns"]["step"][-1], 5)
        self.assertEqual(track["columns"]["loss"][-1], -0.0015)
        self.assertIsNone(data["runs"][0]["summary"])
        self.assertEqual(len(data["traces"]["0"]["events"]), 1)

    def test_a_resumed_run_counts_steps_once(self):
        run = self.folder / "runs" / "resumed"
        run.mkdir(parents=True)
        (run / "metrics.jsonl").write_text("".join(f'{{"kind":"step","step":{s},"loss":{v}}}\n' for s, v in
                                                   ((1, 9), (2, 8), (3, 7), (2, 1), (3, 0.5))))
        self.shoal("report", "runs", "-o", "page.html")
        columns = page_data(self.folder / "page.html")[0]["runs"][0]["tracks"][0]["columns"]
        self.assertEqual((columns["step"], columns["loss"]), ([1, 2, 3], [9, 1, 0.5]))

    def test_tests_are_curves(self):
        """The chief's validation, whoever else ends an epoch first; an evaluator's tests, each where its step was."""
        folder = self.folder / "r"
        (folder / "eval").mkdir(parents=True)
        lines = []
        for epoch in range(1, 5):
            point = {"kind": "epoch", "step": 10 * epoch, "examples": 640 * epoch, "seconds": 2 * epoch, "loss": 1 / epoch}
            lines += [{**point, "task": "worker/1", "validation_loss": None, "validation_accuracy": None},
                      {**point, "task": "worker/0", "validation_loss": 2 / epoch, "validation_accuracy": 0.2 * epoch}]
        lines.append({"kind": "eval", "task": "worker/0", "split": "test", "step": 40, "examples": 128, "seconds": 0.1,
                      "loss": 0.5, "accuracy": 0.8})
        (folder / "metrics.jsonl").write_text("".join(json.dumps(l) + "\n" for l in lines))
        tests = [{"kind": "checkpoint", "step": 5 * i, "examples": 128, "seconds": 0.1, "loss": 3 / i, "accuracy": 0.1 * i}
                 for i in range(1, 9)]
        (folder / "eval" / "metrics.jsonl").write_text("".join(json.dumps(l) + "\n" for l in tests))
        self.shoal("report", "r", "-o", "page.html")
        run = page_data(self.folder / "page.html")[0]["runs"][0]
        first = {}
        for track in run["tracks"]:
            first.setdefault(track["kind"], track)  # the one that the page draws
        self.assertEqual(first["epoch"]["task"], "worker/0")
        self.assertEqual(first["epoch"]["columns"]["validation_loss"], [2, 1, 0.666667, 0.5])
        columns = first["checkpoint"]["columns"]
        self.assertEqual(columns["step"], [5, 10, 15, 20, 25, 30, 35, 40])
        self.assertEqual(columns["examples"], [640, 640, 960, 1280, 1600, 1920, 2240, 2560])  # before the first: as there
        self.assertEqual(columns["seconds"], [2, 2, 3, 4, 5, 6, 7, 8])
        self.assertEqual(first["eval"]["columns"]["examples"], [2560])
        # Nothing outside of the run's folder is read.
        (folder / "eval").rename(self.folder / "elsewhere")
        (folder / "eval").symlink_to(self.folder / "elsewhere")
        self.shoal("report", "r", "-o", "page.html")
        kinds = {t["kind"] for t in page_data(self.folder / "page.html")[0]["runs"][0]["tracks"]}
        self.assertEqual(kinds, {"epoch", "eval"})

    def test_usage(self):
        self.assertIn("expected folders of runs", self.shoal("report", expect=2)[1])
        self.assertIn("no run found", self.shoal("report", ".", expect=1)[1])
        self.assertIn("needs a token", self.shoal("dash", ".", "--address", "0.0.0.0", expect=2)[1])
        self.assertIn("not an address", self.shoal("dash", ".", "--address", "example", expect=2)[1])
        self.assertIn("is not a folder", self.shoal("dash", "nowhere", expect=2)[1])

    def test_slow_connections_shut_nobody_out(self):
        """Many that never finish their request, and bring no token."""
        (self.folder / "runs").mkdir()
        with Dash(self.folder / "runs", "--token", "secret") as dash:
            held = []
            for _ in range(150):
                s = socket.create_connection(("127.0.0.1", dash.port))
                s.sendall(b"GET /api/state HTTP/1.1\r\nHost: ")
                held.append(s)
            before = time.monotonic()
            self.assertEqual(dash.json("api/state?token=secret")["runs"], [])
            self.assertLess(time.monotonic() - before, 5)
            for s in held:
                s.close()

    def test_thousands_of_runs(self):
        """The list is read once; after that, only what has changed."""
        runs = 3000
        summary = {"status": "finished", "model": "softmax", "tasks": [{"role": "worker", "note": "x" * 3000}]}
        for i in range(runs):
            folder = self.folder / "runs" / f"run-{i}"
            folder.mkdir(parents=True)
            (folder / "summary.json").write_text(json.dumps({**summary, "examples": i}, indent=1))
        with Dash(self.folder / "runs") as dash:
            took = []
            for _ in range(3):
                before = dash.seconds()
                state = dash.json("api/state")
                took.append(dash.seconds() - before)
                self.assertEqual([r["summary"]["examples"] for r in state["runs"]], list(range(runs)))
            (self.folder / "runs" / "run-7" / "summary.json").write_text(json.dumps({**summary, "examples": -1}))
            end = time.monotonic() + 20
            while dash.json("api/state")["runs"][7]["summary"]["examples"] != -1:
                self.assertLess(time.monotonic(), end, "a changed run is not seen")
                time.sleep(0.2)
        print(f"{runs} runs: processor time of the first list {took[0]:.2f} s, of later ones {min(took[1:]):.2f} s")
        if "asan" not in os.environ.get("SHOAL_BUILD", ""):
            self.assertLess(took[0], 3)  # bytes that are read one by one take much longer
            self.assertLess(min(took[1:]), 0.5)

    def test_a_million_points(self):
        write_long_run(self.folder / "runs" / "long", 1_000_000)
        before = time.monotonic()
        self.shoal("report", "runs", "-o", "page.html")
        took = time.monotonic() - before
        self.assertLess((self.folder / "page.html").stat().st_size, 3_000_000)
        with Dash(self.folder / "runs") as dash:
            before = time.monotonic()
            run = dash.json("api/run?id=0")
            loaded = time.monotonic() - before
            loss = run["tracks"][0]["columns"]["loss"]
            self.assertLessEqual(len(loss["mean"]), 1000)
            self.assertEqual(max(loss["most"]), 1e9)  # one point in a million is not lost
            part = dash.json("api/run?id=0&by=step&from=499990&to=500010&points=500")["tracks"][0]
            self.assertEqual(part["columns"]["loss"][part["columns"]["step"].index(500000)], 1e9)
            self.assertEqual(len(part["columns"]["step"]), 23)
            memory = dash.memory()
        print(f"a million points: report {took:.2f} s, first answer {loaded:.2f} s, memory {memory / 1e6:.0f} MB")
        if "asan" not in os.environ.get("SHOAL_BUILD", ""):
            self.assertLess(memory, 100e6)

    def test_who_may_ask(self):
        self.train("softmax", "runs/one", "--epochs", 1)
        with Dash(self.folder / "runs") as dash:
            _, headers = dash.get("/")
            policy = headers["Content-Security-Policy"]
            self.assertRegex(policy, "default-src 'none'; script-src 'sha256-[^']*';")
            self.assertIn("frame-ancestors 'none'", policy)
            self.assertNotIn("unsafe", policy)
            self.assertEqual(headers["X-Content-Type-Options"], "nosniff")
            for path in ("/../../etc/passwd", "/..%2f..%2fetc%2fpasswd", "/runs/one/summary.json", "/api/run?id=99",
                         "/api/run?id=../one", "/api/run", "/api/trace?id=-1", "//etc/passwd"):
                dash.get(path, expect=404)
            dash.get("/api/run?id=0&points=1", expect=400)
            dash.get("/", method="POST", expect=405)
            dash.get("/", headers={"Host": "evil.example"}, expect=403)
            dash.get("/", headers={"Host": "localhost.evil.example"}, expect=403)
            self.assertIn(b" 404 ", dash.raw(b"GET /../../../etc/passwd HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"))
            dash.raw(b"\x00\xff" * 5000)
            dash.raw(b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 100000 + b"\r\n\r\n")
            dash.get("/")

    def test_only_its_folder(self):
        self.train("softmax", "outside", "--epochs", 1)
        inside = self.folder / "runs" / "inside"
        inside.mkdir(parents=True)
        (inside / "metrics.jsonl").write_text('{"kind":"step","step":1,"loss":1}\n')
        (inside / "summary.json").symlink_to(self.folder / "outside" / "summary.json")
        (self.folder / "runs" / "linked").symlink_to(self.folder / "outside")
        with Dash(self.folder / "runs") as dash:
            state = dash.json("api/state")
            self.assertEqual([r["name"] for r in state["runs"]], ["inside"])
            self.assertIsNone(state["runs"][0]["summary"])

    def test_token(self):
        (self.folder / "runs").mkdir()
        with Dash(self.folder / "runs", "--token", "s3cret-s3cret", "--address", "0.0.0.0") as dash:
            dash.base = f"http://127.0.0.1:{dash.port}/"
            for path in ("/", "/api/state", "/api/events", "/?token=", "/?token=s3cret-s3creT", "/?token=s3cret"):
                dash.get(path, expect=401)
            dash.get("/", headers={"Authorization": "Bearer wrong"}, expect=401)
            dash.get("/?token=s3cret-s3cret")
            dash.get("/api/state", headers={"Authorization": "Bearer s3cret-s3cret"})

    def test_events_tell_of_a_run_that_grows(self):
        (self.folder / "runs").mkdir()
        with Dash(self.folder / "runs") as dash:
            with urllib.request.urlopen(dash.base + "api/events", timeout=10) as stream:
                self.assertEqual(stream.headers["Content-Type"], "text/event-stream")
                run = self.folder / "runs" / "new"
                run.mkdir()
                seen = []
                for step in (1, 2):
                    with open(run / "metrics.jsonl", "a") as f:
                        f.write(f'{{"kind":"step","step":{step},"loss":0.5}}\n')
                    while not (line := stream.readline()).startswith(b"data:"):
                        self.assertTrue(line, "the server ended the stream")
                    seen.append(json.loads(line[5:])["runs"])
                    self.assertEqual(dash.json(f"api/run?id={seen[-1][0][0]}")["tracks"][0]["rows"], step)
                self.assertLess(seen[0][0][1], seen[1][0][1])


if __name__ == "__main__":
    support.main()
