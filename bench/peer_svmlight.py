"""Reading LIBSVM text in scikit-learn: best of three, one line in the form of the other benchmarks.

usage: peer_svmlight.py FILE"""
import os
import sys
import time

import sklearn
from sklearn.datasets import load_svmlight_file

path = sys.argv[1]
best = 1e9
for _ in range(3):
    start = time.perf_counter()
    x, _ = load_svmlight_file(path)
    best = min(best, time.perf_counter() - start)
print(f"libsvm {x.shape[0]} 1 rows_per_second={x.shape[0] / best:.0f} "
      f"megabytes_per_second={os.path.getsize(path) / best / 1e6:.1f} version={sklearn.__version__}")
