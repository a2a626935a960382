"""--sink: metrics to MLflow's file store and server, and to a collector of OpenTelemetry. The servers are the test's own."""
import http.server
import json
import os
import shutil
import socket
import ssl
import subprocess
import threading
import time
import unittest
import urllib.parse

import support


class Service(http.server.BaseHTTPRequestHandler):
    """MLflow's REST interface and a collector's /v1/metrics, as far as they are asked for."""

    def answer(self, code, body):
        data = json.dumps(body).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        at = urllib.parse.urlsplit(self.path)
        self.server.seen.append((at.path, urllib.parse.parse_qs(at.query), dict(self.headers)))
        self.answer(404, {"error_code": "RESOURCE_DOES_NOT_EXIST", "message": "no such experiment"})

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.seen.append((self.path, body, dict(self.headers)))
        if self.server.refuses:
            self.answer(503, {"message": "not today"})
        elif self.path.endswith("experiments/create"):
            self.answer(200, {"experiment_id": "17"})
        elif self.path.endswith("runs/create"):
            self.answer(200, {"run": {"info": {"run_id": "abc123"}}})
        else:
            self.answer(200, {})

    def log_message(self, *ignored):
        pass


class Sinks(support.Case):
    def serve(self, refuses=False):
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Service)
        server.seen, server.refuses = [], refuses
        server.handle_error = lambda *ignored: None  # a client that does not trust it goes away
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        return server, f"http://127.0.0.1:{server.server_port}"

    def lines(self, run, kind):
        return [o for o in map(json.loads, (self.folder / run / "metrics.jsonl").read_text().splitlines())
                if o["kind"] == kind]

    def assert_near(self, found, expected):
        """Numbers in the file have 13 digits."""
        self.assertEqual([tuple(float(f"{n:.9g}") for n in p) for p in found],
                         [tuple(float(f"{n:.9g}") for n in p) for p in expected])

    def test_mlflow_files(self):
        self.train("softmax", "run", "--epochs", "2", "--quiet", "--sink", "mlflow:store")
        (experiment,) = (p for p in (self.folder / "store").iterdir())
        meta = (experiment / "meta.yaml").read_text()
        self.assertIn("name: shoal\n", meta)
        (run,) = (p for p in experiment.iterdir() if p.is_dir())
        meta = dict(line.split(": ", 1) for line in (run / "meta.yaml").read_text().splitlines())
        self.assertEqual((meta["status"], meta["run_name"], meta["run_id"]), ("3", "run", run.name))
        self.assertEqual((run / "params/epochs").read_text(), "2")
        self.assertEqual((run / "tags/mlflow.runName").read_text(), "run")
        points = [line.split() for line in (run / "metrics/epoch_loss").read_text().splitlines()]
        expected = self.lines("run", "epoch")
        self.assert_near([(float(v), int(s)) for _, v, s in points], [(o["loss"], o["step"]) for o in expected])
        self.assertAlmostEqual(float(points[0][0]) / 1000, expected[0]["time"], delta=0.01)
        self.assertAlmostEqual(float((run / "metrics/test_accuracy").read_text().split()[-2]),
                               self.lines("run", "eval")[-1]["accuracy"])
        # Resumed, it is the same run there.
        self.train("softmax", "run", "--resume", "--epochs", "3", "--quiet")
        self.assertEqual(len((run / "metrics/epoch_loss").read_text().splitlines()), 3)
        self.assertEqual(len(list(experiment.iterdir())), 2)
        try:
            import mlflow
        except ImportError:
            print("MLflow is not installed: its own client has not read the store")
            return
        os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"  # for which newer versions want to be asked
        found = mlflow.tracking.MlflowClient((self.folder / "store").as_uri()).get_run(run.name)
        self.assertEqual(found.info.status, "FINISHED")
        self.assertAlmostEqual(found.data.metrics["epoch_loss"], self.lines("run", "epoch")[-1]["loss"])

    def test_mlflow_server(self):
        server, url = self.serve()
        self.train("softmax", "run", "--workers", "2", "--ps", "1", "--epochs", "2", "--quiet", "--sink", "mlflow",
                   env={"MLFLOW_TRACKING_URI": url, "MLFLOW_TRACKING_TOKEN": "secret", "MLFLOW_EXPERIMENT_NAME": "my digits"})
        api = "/api/2.0/mlflow/"
        self.assertEqual([path[len(api):] for path, _, _ in server.seen[:4]],
                         ["experiments/get-by-name", "experiments/create", "runs/create", "runs/log-batch"])
        self.assertEqual(server.seen[0][1], {"experiment_name": ["my digits"]})
        self.assertTrue(all(headers["Authorization"] == "Bearer secret" for _, _, headers in server.seen))
        self.assertEqual(server.seen[2][1]["experiment_id"], "17")
        self.assertIn({"key": "epochs", "value": "2"}, server.seen[3][1]["params"])
        sent = [m for path, body, _ in server.seen[4:] if path.endswith("log-batch") for m in body["metrics"]]
        for kind, key in (("epoch", "epoch_loss"), ("step", "loss")):
            self.assert_near([(m["value"], m["step"]) for m in sent if m["key"] == key],
                             [(o["loss"], o["step"]) for o in self.lines("run", kind) if o["task"] == "worker/0"])
        path, body, _ = server.seen[-1]
        self.assertEqual((path, body["run_id"], body["status"]), (api + "runs/update", "abc123", "FINISHED"))

    def test_collector(self):
        server, url = self.serve()
        self.train("softmax", "run", "--epochs", "2", "--quiet", "--sink", f"otlp:{url}/otel/",
                   env={"OTEL_EXPORTER_OTLP_HEADERS": "x-key=value"})
        self.assertTrue(server.seen)
        points = {}
        for path, body, headers in server.seen:
            self.assertEqual((path, headers["x-key"], headers["Content-Type"]),
                             ("/otel/v1/metrics", "value", "application/json"))
            (resource,) = body["resourceMetrics"]
            attributes = {a["key"]: a["value"]["stringValue"] for a in resource["resource"]["attributes"]}
            self.assertEqual((attributes["service.name"], attributes["shoal.model"]), ("shoal", "softmax"))
            for metric in resource["scopeMetrics"][0]["metrics"]:
                data = metric.get("gauge") or metric["sum"]
                points.setdefault(metric["name"], []).extend(data["dataPoints"])
                if metric["name"] in ("shoal.steps", "shoal.examples"):
                    self.assertEqual((metric["sum"]["isMonotonic"], metric["sum"]["aggregationTemporality"]), (True, 2))
        epochs = self.lines("run", "epoch")
        self.assert_near([(p["asDouble"],) for p in points["shoal.epoch_loss"]], [(o["loss"],) for o in epochs])
        self.assertAlmostEqual(int(points["shoal.epoch_loss"][0]["timeUnixNano"]) / 1e9, epochs[0]["time"], delta=0.001)
        self.assertIn("shoal.test_accuracy", points)

    def test_nobody_there(self):
        """Told once; the training goes on."""
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        begun = time.monotonic()
        error = self.train("softmax", "run", "--epochs", "20", "--sink", f"otlp:http://127.0.0.1:{port},mlflow:/proc/no")[1]
        self.assertEqual(error.count("--sink otlp: "), 1, error)
        self.assertEqual(error.count("--sink mlflow: "), 1, error)
        self.assertIn("training goes on", error)
        self.assertEqual(self.summary("run")["status"], "finished")
        self.assertLess(time.monotonic() - begun, 120)

    def test_refused(self):
        server, url = self.serve(refuses=True)
        error = self.train("softmax", "run", "--epochs", "2", "--sink", f"otlp:{url}")[1]
        self.assertIn("HTTP status 503", " ".join(error.split()))
        self.assertEqual(self.summary("run")["status"], "finished")

    def certificate(self, name):
        """One that signs itself, for an address and a name: files of key and certificate."""
        key, crt = self.folder / "key.pem", self.folder / "crt.pem"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                        "-days", "2", "-subj", "/CN=test", "-addext", f"subjectAltName={name}", "-keyout", key, "-out", crt],
                       check=True, capture_output=True)
        return key, crt

    def serve_https(self, name):
        server, url = self.serve()
        key, crt = self.certificate(name)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(crt, key)
        # Handshakes are those of a request's thread.
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        return server, url.replace("http:", "https:"), str(crt)

    @unittest.skipUnless(shutil.which("openssl"), "needs the command openssl")
    def test_https(self):
        server, url, crt = self.serve_https("IP:127.0.0.1,DNS:localhost")
        self.train("softmax", "run", "--epochs", "2", "--quiet", "--sink", f"otlp:{url},mlflow:{url}",
                   env={"OTEL_EXPORTER_OTLP_CERTIFICATE": crt, "MLFLOW_TRACKING_SERVER_CERT_PATH": crt})
        self.assertEqual({p for p, _, _ in server.seen if "metrics" in p}, {"/v1/metrics"})
        sent = [m for p, body, _ in server.seen if p.endswith("log-batch") for m in body.get("metrics", [])]
        self.assert_near([(m["value"], m["step"]) for m in sent if m["key"] == "epoch_loss"],
                         [(o["loss"], o["step"]) for o in self.lines("run", "epoch")])
        # By name, with the certificates of the system replaced.
        server.seen.clear()
        self.train("softmax", "named", "--epochs", "1", "--quiet", "--sink", "otlp:" + url.replace("127.0.0.1", "localhost"),
                   env={"SSL_CERT_FILE": crt})
        self.assertTrue(server.seen)
        # Nobody vouches for it.
        server.seen.clear()
        error = " ".join(self.train("softmax", "distrusted", "--epochs", "1", "--sink", f"otlp:{url}")[1].split())
        self.assertIn(f"{url}: its certificate is not trusted (self-signed certificate)", error)
        self.assertIn("SSL_CERT_FILE", error)
        self.assertEqual((server.seen, self.summary("distrusted")["status"]), ([], "finished"))

    @unittest.skipUnless(shutil.which("openssl"), "needs the command openssl")
    def test_https_wrong(self):
        server, url, crt = self.serve_https("DNS:elsewhere.invalid")
        plain, plain_url = self.serve()
        with socket.socket() as closes:  # a server that takes connections and says nothing of TLS
            closes.bind(("127.0.0.1", 0))
            closes.listen()
            threading.Thread(target=lambda: [closes.accept()[0].close() for _ in range(9)], daemon=True).start()
            for i, (sink, ca, words) in enumerate((
                    (url, crt, "its certificate is for another host than '127.0.0.1'"),
                    (plain_url.replace("http:", "https:"), crt, "is it http:// in place of https://?"),
                    (url, str(self.folder / "none.pem"), "none.pem: no certificates can be read from it"),
                    (f"https://127.0.0.1:{closes.getsockname()[1]}", crt, "closed the connection"))):
                error = self.train("softmax", f"run{i}", "--epochs", "1", "--sink", f"otlp:{sink}",
                                   env={"OTEL_EXPORTER_OTLP_CERTIFICATE": ca})[1]
                self.assertIn(words, " ".join(error.split()))
                self.assertEqual(self.summary(f"run{i}")["status"], "finished")
        self.assertEqual((server.seen, plain.seen), ([], []))

    def test_wrong_words(self):
        for sink, words in (("wandb:x", "not 'wandb:x'"), ("otlp", "OTEL_EXPORTER_OTLP_ENDPOINT"),
                            ("otlp:https://", "http://HOST:PORT"), ("otlp:a:b", "http://HOST:PORT"),
                            ("mlflow:http://a:99999", "http://HOST:PORT"), ("mlflow:x,", "not ''")):
            error = self.train("softmax", "run", "--sink", sink, expect=2)[1]
            self.assertIn(words, " ".join(error.split()), sink)
            self.assertFalse((self.folder / "run").exists())


support.main()
