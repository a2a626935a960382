"""Ctrl-C, forks, threads, and memory that stays."""
import os
import signal
import subprocess
import sys

import support

support.need("numpy")

MODEL = """
import numpy as np, shoal, sys
x = np.random.default_rng(0).normal(size=(20000, 50)).astype(np.float32)
y = (x[:, 0] > 0).astype(np.int32)
def model(threads=2):
    m = shoal.Sequential([shoal.layers.Dense(64, "relu"), shoal.layers.Dense(2, "softmax")])
    m.compile("sgd", threads=threads)
    return m
"""


class Processes(support.Case):
    def test_interrupt(self):
        for strategy in ("None", "shoal.ParameterServer(2, 1)"):
            code = MODEL + f"""
m = model()
class Begun(shoal.callbacks.Callback):
    def on_step(self, step, logs):
        print("begun", flush=True)
try:
    m.fit(x, y, epochs=1000000, callbacks=[Begun()], strategy={strategy})
except KeyboardInterrupt:
    print("interrupted", m.evaluate(x[:10], y[:10])["loss"] > 0)
"""
            p = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            try:
                self.assertIn("begun", p.stdout.readline())
                p.send_signal(signal.SIGINT)
                rest, _ = p.communicate(timeout=50)
            finally:
                p.kill()
                p.wait()
            self.assertEqual((p.returncode, rest.splitlines()[-1]), (0, "interrupted True"), rest)

    def test_fork(self):
        out = self.python(MODEL + """
import multiprocessing as mp, os
m = model()
m.fit(x[:2000], y[:2000])
expected = m.predict(x[:100])
def child(queue):
    m.fit(x[:500], y[:500])             # the model that came along, with threads of its own
    n = model(); n.fit(x[:500], y[:500])
    queue.put(n.predict(x[:5]).shape)
context = mp.get_context("fork")
queue = context.Queue()
children = [context.Process(target=child, args=(queue,)) for _ in range(2)]
for c in children: c.start()
print([queue.get(timeout=40) for _ in children])
for c in children: c.join(40)
print([c.exitcode for c in children], np.array_equal(m.predict(x[:100]), expected))
""")
        self.assertEqual(out.splitlines(), ["[(5, 2), (5, 2)]", "[0, 0] True"])

    def test_other_threads_go_on(self):
        out = self.python(MODEL + """
import threading, time
m, counted, done = model(1), 0, threading.Event()
def count():
    global counted
    while not done.is_set():
        counted += 1
        time.sleep(0.001)
t = threading.Thread(target=count); t.start()
start = time.monotonic(); before = counted
m.fit(x, y, epochs=20)
inside = counted - before
done.set(); t.join()
print(inside > 3)
""")
        self.assertEqual(out.strip(), "True")

    def test_memory_stays(self):
        rounds = int(os.environ.get("SHOAL_LEAK_ROUNDS", "300"))
        out = self.python(f"""
import gc, numpy as np, shoal
def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4
x, y = np.eye(8, 4, dtype=np.float32), np.arange(8) % 2
def once():
    m = shoal.Sequential([shoal.layers.Dense(2, "softmax")])
    m.compile("sgd", threads=1)
    m.fit(x, y)
for _ in range({rounds} // 3): once()
gc.collect(); before = resident()
for _ in range({rounds}): once()
gc.collect(); print(resident() - before)
""", timeout=110 + rounds // 20)
        self.assertLess(int(out), 3000)  # KB


if __name__ == "__main__":
    support.main()
