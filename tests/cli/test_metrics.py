"""What tasks tell monitoring: /metrics, /healthz and /readyz of every role; promtool and a real Prometheus where they are."""
import json
import random
import re
import shutil
import socket
import subprocess
import time
import unittest
import urllib.error
import urllib.request

import support

LATEST = 120  # seconds
OPEN = {"Accept": "application/openmetrics-text; version=1.0.0"}


def free_ports(n):
    """The first of n ports in a row that nobody has just now."""
    while True:
        first = random.randrange(20000, 32000)
        sockets = [socket.socket() for _ in range(n)]
        try:
            for i, s in enumerate(sockets):
                s.bind(("127.0.0.1", first + i))
            return first
        except OSError:
            continue
        finally:
            for s in sockets:
                s.close()


def get(port, path, headers=None):
    """Status, kind and text of what is answered; 0: nobody answers."""
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers=headers or {})
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status, answer.headers["Content-Type"], answer.read().decode()
    except urllib.error.HTTPError as answer:
        return answer.code, answer.headers["Content-Type"], answer.read().decode()
    except OSError:
        return 0, "", ""


def values(words):
    """{'name{labels}': value} of an answer."""
    return {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1]) for line in words.splitlines()
            if not line.startswith("#")}


@unittest.skipUnless(subprocess.run([support.SHOAL, "doctor"], capture_output=True, text=True).stdout.find(
    "without libmicrohttpd") < 0, "this build has no libmicrohttpd")
class Metrics(support.Case):
    def start(self, *flags, env=None):
        process = subprocess.Popen(
            [support.SHOAL, "train", "softmax", "--data", self.data, "--threads", "1", "--epochs", "100000000",
             "--run-dir", "run", *map(str, flags)], cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env=self.environment(**(env or {})))
        self.addCleanup(lambda: (process.poll() is None and process.kill(), process.communicate()))
        return process

    def wait(self, process, port, path="/readyz", code=200, **headers):
        end = time.monotonic() + LATEST
        while get(port, path, headers)[0] != code:
            self.assertIsNone(process.poll(), "the run has ended")
            self.assertLess(time.monotonic(), end, f"port {port} gives no {code}")
            time.sleep(0.05)

    def test_every_role(self):
        port = free_ports(4)
        process = self.start("--workers", 2, "--ps", 1, "--batch-size", 32, "--mode", "async", "--evaluator",
                             "--checkpoint-every", 2000, "--metrics-port", port)
        for i, task in enumerate(("ps/0", "worker/0", "worker/1", "evaluator/0")):
            self.wait(process, port + i)
            self.assertEqual(get(port + i, "/healthz"), (200, "text/plain; charset=utf-8", "ok\n"))
            code, kind, words = get(port + i, "/metrics", OPEN)
            self.assertEqual(code, 200)
            self.assertIn("application/openmetrics-text; version=1.0.0", kind)
            self.assertTrue(words.endswith("# EOF\n"))
            self.assertIn(f'process_resident_memory_bytes{{task="{task}"}}', words)
            if shutil.which("promtool"):
                code, kind, words = get(port + i, "/metrics")
                self.assertIn("version=0.0.4", kind)
                done = subprocess.run(["promtool", "check", "metrics"], input=words, capture_output=True, text=True,
                                      timeout=LATEST)
                self.assertEqual((done.returncode, done.stdout + done.stderr), (0, ""), words)
        worker, server = values(get(port + 1, "/metrics")[2]), values(get(port, "/metrics")[2])
        for name in ("shoal_steps_total", "shoal_examples_total", "shoal_loss", "shoal_learning_rate",
                     "shoal_network_sent_bytes_total", "shoal_compute_seconds_total"):
            self.assertIn(name + '{task="worker/0"}', worker)
        for cause in ("network", "barrier", "server", "input"):
            self.assertIn(f'shoal_wait_seconds_total{{task="worker/0",cause="{cause}"}}', worker)
        self.assertGreater(server['shoal_updates_total{task="ps/0"}'], 0)
        self.assertEqual(server['shoal_gradient_staleness_updates_bucket{task="ps/0",le="+Inf"}'],
                         server['shoal_gradient_staleness_updates_count{task="ps/0"}'])
        before = worker['shoal_steps_total{task="worker/0"}']
        end = time.monotonic() + LATEST
        while values(get(port + 1, "/metrics")[2])['shoal_steps_total{task="worker/0"}'] <= before:
            self.assertLess(time.monotonic(), end)
            time.sleep(0.05)
        # Nobody is shut out by those who say nothing, nor let in by another name.
        silent = [socket.create_connection(("127.0.0.1", port + 1)) for _ in range(100)]
        self.assertEqual(get(port + 1, "/metrics")[0], 200)
        self.assertEqual(get(port + 1, "/metrics", {"Host": "other.example"})[0], 403)
        self.assertEqual(get(port + 1, "/secrets")[0], 404)
        for s in silent:
            s.close()

    def test_token(self):
        port = free_ports(1)
        words = self.shoal("train", "softmax", "--data", self.data, "--metrics-port", port, "--metrics-address", "0.0.0.0",
                           expect=2, env={"SHOAL_METRICS_TOKEN": ""})[1]
        self.assertIn("--metrics-address", words)
        process = self.start("--metrics-port", port, "--metrics-address", "0.0.0.0", env={"SHOAL_METRICS_TOKEN": "s3cret"})
        self.wait(process, port)
        self.assertEqual(get(port, "/metrics")[0], 401)
        self.assertEqual(get(port, "/metrics", {"Authorization": "Bearer wrong"})[0], 401)
        self.assertEqual(get(port, "/metrics", {"Authorization": "Bearer s3cret"})[0], 200)
        self.assertNotIn("s3cret", (self.folder / "run/settings.json").read_text())

    def test_taken_port(self):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            s.listen()
            words = self.shoal("train", "softmax", "--data", self.data, "--metrics-port", s.getsockname()[1],
                               "--epochs", 1, expect=1)[1]
            self.assertRegex(words, "--metrics-port: worker/0 cannot listen .*in use")

    @unittest.skipUnless(shutil.which("prometheus"), "there is no prometheus")
    def test_prometheus_scrapes_it(self):
        port, own = free_ports(2), free_ports(1)
        process = self.start("--workers", 1, "--ps", 1, "--batch-size", 32, "--metrics-port", port)
        self.wait(process, port + 1)
        config = self.folder / "prometheus.yml"
        config.write_text("global: {scrape_interval: 500ms}\nscrape_configs:\n- job_name: shoal\n  static_configs:\n"
                          f"  - targets: ['127.0.0.1:{port}', '127.0.0.1:{port + 1}']\n")
        server = subprocess.Popen(["prometheus", f"--config.file={config}", f"--storage.tsdb.path={self.folder}/tsdb",
                                   f"--web.listen-address=127.0.0.1:{own}"], stdout=subprocess.DEVNULL,
                                  stderr=subprocess.DEVNULL)
        self.addCleanup(lambda: (server.kill(), server.wait()))
        query = "/api/v1/query?query=" + urllib.request.quote('rate(shoal_steps_total{task="worker/0"}[1m])')
        end, rate = time.monotonic() + LATEST, 0
        while not rate > 0:
            self.assertIsNone(server.poll(), "Prometheus has ended")
            self.assertLess(time.monotonic(), end, "Prometheus knows no rate")
            code, _, words = get(own, query)
            found = json.loads(words)["data"]["result"] if code == 200 else []
            rate = float(found[0]["value"][1]) if found else 0
            time.sleep(0.1)
        up = json.loads(get(own, "/api/v1/query?query=sum(up)")[2])["data"]["result"][0]["value"][1]
        self.assertEqual(up, "2")

    def test_dashboard_names_metrics_that_are_there(self):
        """Each metric that the Grafana dashboard asks for is one of the table's."""
        source = (support.ROOT / "src/observe/openmetrics.c").read_text()
        known = set(re.findall(r'"((?:shoal|process)_\w+)"', source))
        board = json.loads((support.ROOT / "share/grafana-dashboard.json").read_text())
        asked = set()
        for panel in board["panels"]:
            for target in panel.get("targets", []):
                asked |= set(re.findall(r"\b((?:shoal|process)_\w+)", target["expr"]))
        self.assertGreater(len(asked), 8)
        for name in asked:
            self.assertIn(re.sub("_(total|bucket|sum|count)$", "", name), known, name)


if __name__ == "__main__":
    support.main()
