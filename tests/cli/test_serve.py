"""shoal serve: scores over HTTP as shoal predict gives them, bad requests, tokens, and newer weights without a gap."""
import http.client
import json
import random
import signal
import struct
import subprocess
import sys
import threading
import time

import support


class Serve:
    """A server of its own for a test."""

    def __init__(self, run, *flags):
        self.process = subprocess.Popen([support.SHOAL, "serve", str(run), "--port", "0", *flags], text=True,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        line = self.process.stdout.readline()
        if "http://" not in line:
            raise AssertionError(self.process.communicate(timeout=30)[1])
        self.port = int(line.split(":")[2].split("/")[0])
        self.path = line[line.index("/v1"):].strip()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        self.out, self.err = self.process.communicate(timeout=60)

    def ask(self, body, kind="application/json", path=None, method="POST", headers=None):
        """(status, body) of one request."""
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        c.request(method, path or self.path, body=body, headers={"Content-Type": kind, **(headers or {})})
        answer = c.getresponse()
        got = answer.read()
        c.close()
        return answer.status, got

    def predict(self, instances):
        status, got = self.ask(json.dumps({"instances": instances}))
        if status != 200:
            raise AssertionError((status, got))
        return json.loads(got)["predictions"]

    def version(self):
        return int(json.loads(self.ask(None, path=self.path.split(":")[0], method="GET")[1])["model_version_status"][0]["version"])


def write_clicks(path, rows, seed):
    numbers = random.Random(seed)
    lines = []
    for _ in range(rows):
        indices = sorted(numbers.sample(range(1, 500), 8))
        label = int(sum(i % 2 for i in indices) + numbers.random() > 4.5)
        lines.append(f"{label} " + " ".join(f"{i}:{numbers.choice((1, 0.5))}" for i in indices))
    path.write_text("\n".join(lines) + "\n")
    return [([int(p.split(":")[0]) for p in line.split()[1:]], [float(p.split(":")[1]) for p in line.split()[1:]])
            for line in lines]


class Serving(support.Case):
    def clicks(self, *flags):
        """A run of sparse-lr, and the rows that it is asked about."""
        write_clicks(self.folder / "train.libsvm", 2000, 1)
        rows = write_clicks(self.folder / "test.libsvm", 50, 2)
        self.shoal("train", "sparse-lr", "--data", "train.libsvm", "--run-dir", "clicks", "--epochs", 3, *flags)
        out, _ = self.shoal("predict", "clicks", "test.libsvm")
        return rows, [float(line) for line in out.split()]

    def near(self, got, expected):
        self.assertEqual(len(got), len(expected))
        for a, b in zip(got, expected):
            self.assertAlmostEqual(a, b, delta=1e-5)

    def test_sparse_rows_in_every_form(self):
        rows, expected = self.clicks()
        with Serve(self.folder / "clicks") as s:
            self.near(s.predict([{"indices": i, "values": v} for i, v in rows]), expected)
            self.near(s.predict([{"indices": rows[0][0]}]), s.predict([{"indices": rows[0][0], "values": [1] * 8}]))
            lines = (self.folder / "test.libsvm").read_bytes()
            status, got = s.ask(lines, "text/plain")
            self.assertEqual(status, 200, got)
            self.near([float(x) for x in got.split()], expected)
            status, got = s.ask(b"\n".join(line.split(b" ", 1)[1] for line in lines.splitlines()), "text/plain; charset=utf-8")
            self.near([float(x) for x in got.split()], expected)
            body = struct.pack(f"<I{len(rows)}I", len(rows), *(len(i) for i, _ in rows))
            body += b"".join(struct.pack(f"<{len(i)}I", *i) for i, _ in rows)
            body += b"".join(struct.pack(f"<{len(v)}f", *v) for _, v in rows)
            status, got = s.ask(body, "application/octet-stream")
            self.near(struct.unpack(f"<{len(rows)}f", got), expected)
            # Features that the model does not know count for nothing.
            i, v = rows[0]
            self.near(s.predict([{"indices": [*i, 10**6], "values": [*v, 1]}]), expected[:1])
            self.assertEqual(s.predict([]), [])
        self.assertIn("Served", s.out)

    def test_growing_ids(self):
        """Trained on a parameter server; ids without a row, of any size, count for nothing."""
        rows, expected = self.clicks("--growing-ids", "--ps", 1)
        with Serve(self.folder / "clicks") as s:
            self.near(s.predict([{"indices": i, "values": v} for i, v in rows]), expected)
            i, v = rows[0]
            self.near(s.predict([{"indices": [*i, 2**63 - 2], "values": [*v, 1]}]), expected[:1])
            status, got = s.ask((self.folder / "test.libsvm").read_bytes(), "text/plain")
            self.near([float(x) for x in got.split()], expected)
            body = struct.pack("<II", 1, len(i)) + struct.pack(f"<{len(i)}I", *i) + struct.pack(f"<{len(v)}f", *v)
            self.near(struct.unpack("<f", s.ask(body, "application/octet-stream")[1]), expected[:1])
            status, got = s.ask(json.dumps({"instances": [{"indices": [2**63 - 1]}]}))
            self.assertEqual(status, 400, got)

    def test_rows_with_fields(self):
        """Of a model that goes by fields: as predict gives them; and what is said about fields that are wrong."""
        numbers, rows = random.Random(3), []
        for _ in range(600):
            words = [numbers.randrange(10) for _ in range(3)]
            rows.append((int((words[0] < 5) == (words[1] < 5)), [(f, 10 * f + w) for f, w in enumerate(words)]))
        for name, part in (("train.ffm", rows[:560]), ("test.ffm", rows[560:])):
            lines = (f"{label} " + " ".join(f"{f}:{i}:1" for f, i in entries) for label, entries in part)
            (self.folder / name).write_text("\n".join(lines) + "\n")
        self.shoal("train", "ffm", "--data", "train.ffm", "--features", 40, "--set", "fields=3,width=7", "--epochs", 3,
                   "--run-dir", "r")
        out, _ = self.shoal("predict", "r", "test.ffm")
        expected = [float(line) for line in out.split()]
        asked = [([f for f, _ in entries], [i for _, i in entries]) for _, entries in rows[560:]]
        with Serve(self.folder / "r") as s:
            self.near(s.predict([{"fields": f, "indices": i} for f, i in asked]), expected)
            body = struct.pack("<41I", 40, *[3] * 40) + b"".join(struct.pack("<3I", *i) for _, i in asked)
            body += struct.pack("<120f", *[1] * 120) + b"".join(struct.pack("<3I", *f) for f, _ in asked)
            status, got = s.ask(body, "application/octet-stream")
            self.assertEqual(status, 200, got)
            self.near(struct.unpack("<40f", got), expected)
            for body, kind, words in (
                    (json.dumps({"instances": [{"indices": [1]}]}), "application/json", "goes by fields"),
                    (json.dumps({"instances": [{"indices": [1], "fields": [0, 1]}]}), "application/json", "one for each index"),
                    (json.dumps({"instances": [{"indices": [1], "fields": [3]}]}), "application/json", "0 to 2"),
                    (struct.pack("<3IfI", 1, 1, 5, 1, 3), "application/octet-stream", "field 3"),
                    (struct.pack("<3If", 1, 1, 5, 1), "application/octet-stream", "bytes"),
                    (b"5:1\n", "text/plain", "send JSON")):
                status, got = s.ask(body, kind)
                self.assertEqual((status, words in json.loads(got)["error"]), (400, True), (words, got))

    def test_dense_rows(self):
        lines = ["a,b,label"] + [f"{100 + i},{1000 - 10 * i},{'low' if i < 20 else 'high'}" for i in range(40)]
        (self.folder / "train.csv").write_text("\n".join(lines) + "\n")
        self.shoal("train", "softmax", "--data", "train.csv", "--transform", "standardise", "--epochs", 30, "--run-dir", "r")
        (self.folder / "new.csv").write_text("a,b\n103,970\n138,620\n")
        out, _ = self.shoal("predict", "r", "new.csv", "--json")
        expected = [p["probabilities"] for p in json.loads(out)]
        with Serve(self.folder / "r") as s:
            got = s.predict([[103, 970], [[138], [620]]])
            for a, b in zip(got, expected):
                self.near(a, b)
            status, got = s.ask(struct.pack("<I2f", 1, 103, 970), "application/octet-stream")
            self.near(struct.unpack("<2f", got), expected[0])

    def test_bad_requests(self):
        self.clicks()
        good = {"indices": [1]}
        cases = (
            (400, b"", "application/json", "empty"),
            (400, b"{", "application/json", "not valid JSON"),
            (400, b"[]", "application/json", "instances"),
            (400, json.dumps({"instances": [good, [1, 2]]}), "application/json", "instance 1"),
            (400, json.dumps({"instances": [{"indices": [3, 2]}]}), "application/json", "ascending"),
            (400, json.dumps({"instances": [{"indices": [-1]}]}), "application/json", "from 0"),
            (400, json.dumps({"instances": [{"indices": [1], "values": [1, 2]}]}), "application/json", "as many values"),
            (400, json.dumps({"instances": [{"indices": [1], "values": ["x"]}]}), "application/json", "numbers"),
            (400, json.dumps({"instances": [good] * 300}), "application/json", "at most 256"),
            (400, b"1:x\n", "text/plain", "found 'x'"),
            (400, b"abc", "application/octet-stream", "4 bytes"),
            (400, struct.pack("<2I", 1, 0xffffffff), "application/octet-stream", "bytes"),
            (400, struct.pack("<3If", 1, 1, 5, float("nan")), "application/octet-stream", "finite"),
            (415, b"<x/>", "text/xml", "Content-Type"),
            (413, b"x" * (1 << 20) + b"x", "application/json", "at most 1048576"),
        )
        with Serve(self.folder / "clicks") as s:
            for code, body, kind, words in cases:
                try:
                    status, got = s.ask(body, kind)
                except ConnectionError:  # refused before all of a large body was sent
                    self.assertEqual(code, 413)
                    continue
                self.assertEqual((status, words in json.loads(got)["error"]), (code, True), (words, got))
            self.assertEqual(s.ask(b"{}", path="/v1/models/other:predict")[0], 404)
            self.assertEqual(s.ask(None, method="GET")[0], 405)
            self.assertEqual(s.ask(b"{}", headers={"Host": "example.org"})[0], 403)
            self.assertEqual(s.ask(None, path="/healthz", method="GET")[0], 200)
            self.assertEqual(len(s.predict([good])), 1)  # as well as before

    def test_token_and_addresses(self):
        self.clicks()
        _, err = self.shoal("serve", "clicks", "--address", "0.0.0.0", expect=2)
        self.assertIn("--token", err)
        _, err = self.shoal("serve", "nothing", expect=1)
        self.assertIn("nothing", err)
        with Serve(self.folder / "clicks", "--token", "secret") as s:
            body = json.dumps({"instances": [{"indices": [1]}]})
            self.assertEqual(s.ask(body)[0], 401)
            self.assertEqual(s.ask(body, headers={"Authorization": "Bearer wrong"})[0], 401)
            self.assertEqual(s.ask(body, headers={"Authorization": "Bearer secret"})[0], 200)
            self.assertEqual(s.ask(body, path=s.path + "?token=secret")[0], 200)

    def test_newer_weights_without_a_gap(self):
        """Rows are asked for all the time while the run is trained on; each answer is that of one set of weights."""
        rows, before = self.clicks()
        asked = [{"indices": i, "values": v} for i, v in rows[:20]]
        answers, wrong, stop = [], [], threading.Event()
        with Serve(self.folder / "clicks", "--reload-every", "0.05") as s:
            def ask():
                while not stop.is_set():
                    try:
                        answers.append(tuple(s.predict(asked)))
                    except Exception as error:  # whatever it is, there was a gap
                        wrong.append(error)
                        return
            threads = [threading.Thread(target=ask) for _ in range(4)]
            for t in threads:
                t.start()
            first = s.version()
            self.shoal("train", "sparse-lr", "--data", "train.libsvm", "--run-dir", "clicks", "--epochs", 6, "--resume")
            end = time.monotonic() + 60
            while s.version() != 2 * first and time.monotonic() < end:  # checkpoints on the way, too
                time.sleep(0.05)
            last = s.version()
            after = s.predict(asked)
            stop.set()
            for t in threads:
                t.join()
        self.assertEqual(wrong, [])
        self.assertEqual(last, 2 * first)
        out, _ = self.shoal("predict", "clicks", "test.libsvm")
        self.near(after, [float(line) for line in out.split()][:20])
        self.assertGreater(max(abs(a - b) for a, b in zip(after, before)), 1e-4)
        self.near(answers[0], before[:20])
        self.assertIn("now serving", s.err)


if __name__ == "__main__":
    if subprocess.run([support.SHOAL, "doctor"], capture_output=True, text=True, timeout=60).stdout.find("without libmicrohttpd") >= 0:
        print("skipped: this build has no server (libmicrohttpd)")
        sys.exit(77)
    support.main()
