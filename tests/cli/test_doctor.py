"""shoal doctor: this machine, and clusters whose tasks are processes of it."""
import json
import socket
import subprocess

import support

LATEST = 20  # seconds


class Doctor(support.Case):
    def setUp(self):
        super().setUp()
        self.tasks = []
        sockets = [socket.socket() for _ in range(3)]
        for s in sockets:
            s.bind(("127.0.0.1", 0))
        self.addresses = [f"127.0.0.1:{s.getsockname()[1]}" for s in sockets]
        for s in sockets:
            s.close()
        self.describe({"worker": self.addresses[:2], "ps": self.addresses[2:]})

    def tearDown(self):
        for task in self.tasks:
            if task.poll() is None:
                task.kill()
            task.communicate()

    def describe(self, cluster, name="cluster.json"):
        (self.folder / name).write_text(json.dumps({"cluster": cluster}))

    def start(self, task, *flags, file="cluster.json", deadline=10):
        process = subprocess.Popen(
            [support.SHOAL, "doctor", "--cluster", file, "--task", task, "--deadline", str(deadline), *map(str, flags)],
            cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=self.environment())
        self.tasks.append(process)
        return process

    def end(self, process, expect=0):
        out, err = process.communicate(timeout=LATEST)
        self.assertEqual(process.returncode, expect, out + err)
        return out, err

    def test_this_machine(self):
        out, _ = self.shoal("doctor")
        for word in ("cores", "kernels", "memory", "GF/s", "open files", "ZeroMQ"):
            self.assertIn(word, out)
        self.assertEqual(json.loads(self.shoal("doctor", "--json")[0])["problems"], [])
        out = subprocess.run(["sh", "-c", f"ulimit -n 200; {support.SHOAL} doctor"], capture_output=True, text=True)
        self.assertEqual(out.returncode, 1)
        self.assertIn("ulimit -n", out.stdout)

    def test_all_pairs(self):
        tasks = [self.start(t, "--json") for t in ("worker:0", "worker:1", "ps:0")]
        for task in tasks:
            found = json.loads(self.end(task)[0])
            self.assertEqual(found["problems"], [])
            self.assertEqual(len(found["pairs"]), 6)
            for pair in found["pairs"]:
                self.assertTrue(pair["answered"])
                self.assertGreater(pair["bytes_per_second"], 1e6)
                self.assertLess(pair["round_trip_seconds"], 0.1)
                self.assertLess(abs(pair["clock_offset_seconds"]), 0.1)

    def test_somebody_is_missing(self):
        one, two = self.start("worker:0", deadline=2), self.start("ps:0", deadline=2)
        out, _ = self.end(one, expect=1)
        self.assertIn("worker:0 does not reach worker:1 at tcp://" + self.addresses[1], out)
        self.assertIn("ps:0 does not reach worker:1", out)  # as the other one found
        self.assertIn("no server listens at this address", out)
        self.end(two, expect=1)

    def test_address_in_use(self):
        with socket.socket() as taken:
            host, port = self.addresses[0].split(":")
            taken.bind((host, int(port)))
            taken.listen()
            _, err = self.end(self.start("worker:0"), expect=1)
        self.assertIn("another process uses this port", err)

    def test_keys(self):
        self.shoal("keygen", "keys")
        self.shoal("keygen", "others")
        for task in [self.start(t, "--keys", "keys") for t in ("worker:0", "worker:1", "ps:0")]:
            self.assertIn("all tasks can reach each other", self.end(task)[0])
        _, err = self.end(self.start("ps:0", "--keys", "nowhere"), expect=1)
        self.assertIn("shoal keygen", err)
        right, wrong = self.start("worker:0", "--keys", "keys", deadline=2), \
            self.start("ps:0", "--keys", "others", deadline=2)
        self.assertIn("does not allow our key", self.end(right, expect=1)[0])
        self.end(wrong, expect=1)
        self.describe({"worker": ["192.0.2.1:2222"], "ps": self.addresses[2:]}, "far.json")
        out, _ = self.end(self.start("ps:0", file="far.json", deadline=1), expect=1)
        self.assertIn("--insecure", out)

    def test_wrong_description(self):
        self.assertIn("worker:0 to worker:1", self.end(self.start("worker:5"), expect=2)[1])
        self.assertIn("--cluster", self.shoal("doctor", "--task", "ps:0", expect=2)[1])
        self.describe({"worker": self.addresses[:2], "ps": self.addresses[2:], "evaluator": []}, "same.json")
        self.assertIn("not part of the cluster", self.end(self.start("evaluator:0", file="same.json"), expect=2)[1])


support.main()
