"""Experiment E: the trace of A A, against the same sum by another program, however it is cut and spread."""
import functools
import itertools
import json
import os
import signal
import subprocess
import sys
import time

from support import SHOAL, Case, children, main

MASK = 0xFFFFFFFF


def philox(seed, stream, position):
    """Four words of the counter-based generator, written down a second time."""
    c = [position & MASK, position >> 32, stream & MASK, stream >> 32]
    k = [seed & MASK, seed >> 32]
    for _ in range(10):
        p, q = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(q >> 32) ^ c[1] ^ k[0], q & MASK, (p >> 32) ^ c[3] ^ k[1], p & MASK]
        k = [(k[0] + 0x9E3779B9) & MASK, (k[1] + 0xBB67AE85) & MASK]
    return c


def trace_of_square(n, seed):
    words = []
    for position in range((n * n + 3) // 4):
        words += philox(seed, 0x6D61747269780000, position)
    a = [(w >> 8) / 2 ** 24 for w in words]
    return sum(a[i * n + j] * a[j * n + i] for i in range(n) for j in range(n))


# The same matrix and the trace of its square by NumPy: in f64 element by element, and by its BLAS in f32.
NUMPY = """
import sys
import numpy as np
n, seed, stream = int(sys.argv[1]), int(sys.argv[2]), 0x6D61747269780000
low = np.uint64(0xFFFFFFFF)
position = np.arange((n * n + 3) // 4, dtype=np.uint64)
c = [position & low, position >> np.uint64(32), np.uint64(stream) & low, np.uint64(stream >> 32)]
c = [np.broadcast_to(x, position.shape) for x in c]
k = [seed & 0xFFFFFFFF, seed >> 32]
for _ in range(10):
    p, q = np.uint64(0xD2511F53) * c[0], np.uint64(0xCD9E8D57) * c[2]
    c = [(q >> np.uint64(32)) ^ c[1] ^ np.uint64(k[0]), q & low, (p >> np.uint64(32)) ^ c[3] ^ np.uint64(k[1]), p & low]
    k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
words = np.stack(c, axis=1).reshape(-1)[:n * n]
a = ((words >> np.uint64(8)).astype(np.float32) * np.float32(2.0 ** -24)).reshape(n, n)
print(repr(float(np.sum(a.astype(np.float64) * a.T))), repr(float(np.trace(a @ a, dtype=np.float64))))
"""


@functools.lru_cache(maxsize=None)
def python_with_numpy():
    for python in (sys.executable, "python3", "/usr/bin/python3"):
        try:
            if not subprocess.run([python, "-c", "import numpy"], capture_output=True, timeout=60).returncode:
                return python
        except OSError:
            pass
    return None


class Matmul(Case):
    def summary_of(self, *flags):
        self.shoal("matmul", "--summary", "m.json", *flags)
        return json.loads((self.folder / "m.json").read_text())

    def test_value_does_not_depend_on_workers_or_blocks(self):
        expected = trace_of_square(61, 5)
        for flags in (("--blocks", 1, "--workers", 1), ("--blocks", 7, "--workers", 2),
                      ("--blocks", 31, "--workers", 5), ("--blocks", 4, "--workers", 3, "--transport", "tcp"),
                      ("--blocks", 5, "--workers", 2, "--full-product")):
            got = self.summary_of("--n", 61, "--seed", 5, *flags)
            self.assertAlmostEqual(got["trace"] / expected, 1, delta=1e-6, msg=str(flags))
            self.assertLess(got["data_bytes"], 1000 * got["pairs"])

    def test_too_large_is_refused_with_numbers(self):
        _, error = self.shoal("matmul", "--n", 10000000, "--blocks", 4, expect=1)
        self.assertRegex(error, r"need [\d.]+ GB each, [\d.]+ GB in all, but [\d.]+ GB are available.*--blocks \d+")

    def test_equals_numpy_at_2000_for_any_workers_and_blocks(self):
        python = python_with_numpy()
        if not python:
            self.skipTest("no Python with NumPy here")
        done = subprocess.run([python, "-c", NUMPY, "2000", "3"], capture_output=True, text=True, timeout=120,
                              check=True)
        exact, by_blas = map(float, done.stdout.split())
        self.assertLess(abs(by_blas / exact - 1), 1e-5)
        traces = ((), 1e-9, itertools.product((1, 3, 7, 10), (1, 2, 5)))
        products = (("--full-product",), 1e-6, ((1, 1), (3, 5), (7, 2), (10, 5)))
        for flags, most, cuts in (traces, products):
            for blocks, workers in cuts:
                got = self.summary_of("--n", 2000, "--seed", 3, "--blocks", blocks, "--workers", workers, *flags)
                self.assertLess(abs(got["trace"] / exact - 1), most, f"{blocks} blocks, {workers} workers, {flags}")
                self.assertLess(got["data_bytes"], 1000 * got["pairs"])

    def test_how_far_the_value_depends_on_the_cut(self):
        """Of one cut, the same but for the order of a few sums; of another, for the rounding inside of the blocks."""
        of = {(b, w): self.summary_of("--n", 500, "--blocks", b, "--workers", w)["trace"]
              for b, w in itertools.product((4, 9), (1, 3, 5))}
        for (b, w), trace in of.items():
            self.assertLess(abs(trace / of[b, 1] - 1), 1e-14, f"{b} blocks, {w} workers")
            self.assertLess(abs(trace / of[4, 1] - 1), 1e-8, f"{b} blocks, {w} workers")
        self.assertEqual(of[9, 3], self.summary_of("--n", 500, "--blocks", 9, "--workers", 3)["trace"])

    def test_share_of_the_machine(self):
        got = self.summary_of("--n", 1500, "--blocks", 3, "--workers", 2, "--full-product")
        self.assertEqual(got["machine_product_flops"], max(got["own_product_flops"], got["blas_product_flops"] or 0))
        self.assertGreater(got["own_product_flops"], 1e8)
        self.assertAlmostEqual(got["share_of_machine"], got["flops"] / got["seconds"] / got["machine_product_flops"])
        out, _ = self.shoal("matmul", "--n", 300, "--blocks", 2, "--workers", 1, "--full-product")
        self.assertRegex(out, r"this machine .* \((lib\w*blas\S* [\d.]+|no BLAS .*)\): reached \d+ % of the faster one")

    def test_killed_task_is_named(self):
        with subprocess.Popen([SHOAL, "matmul", "--n", "60000", "--blocks", "12", "--workers", "3", "--threads", "1"],
                              cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as job:
            end = time.monotonic() + 20
            while len(children(job.pid)) < 3 and time.monotonic() < end:
                time.sleep(0.05)
            time.sleep(0.5)
            victim = children(job.pid)[1]
            os.kill(victim, signal.SIGKILL)
            start = time.monotonic()
            _, error = job.communicate(timeout=30)
            self.assertLess(time.monotonic() - start, 5)
            self.assertEqual(job.returncode, 1)
            self.assertIn("/job:worker/task:1", error)
            self.assertIn("signal 9", error)


if __name__ == "__main__":
    main()
