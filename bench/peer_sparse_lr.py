"""Training sparse logistic regression in scikit-learn on rows in memory, as bench/sparse_bench.c has them: 39 features a row
out of 33,762,578, few of them frequent. Weights warm, rows in order, best of several passes; one line in the form of
the other benchmarks.

usage: peer_sparse_lr.py"""
import time

import numpy
import scipy.sparse
import sklearn
from sklearn.linear_model import SGDClassifier

ROWS, ENTRIES, FEATURES, PASSES = 1_000_000, 39, 33_762_578, 5

numbers = numpy.random.default_rng(0)
indices = numpy.sort((FEATURES * numbers.random((ROWS, ENTRIES)) ** 6).astype(numpy.int32), axis=1)
starts = numpy.arange(0, ROWS * ENTRIES + 1, ENTRIES, dtype=numpy.int32)
rows = scipy.sparse.csr_matrix((numpy.ones(ROWS * ENTRIES), indices.ravel(), starts), shape=(ROWS, FEATURES))
labels = numbers.integers(0, 2, ROWS)
model = SGDClassifier(loss="log_loss", penalty=None, learning_rate="constant", eta0=0.01, shuffle=False)
model.partial_fit(rows[:10], labels[:10], classes=[0, 1])
best = 1e9
for _ in range(PASSES):
    start = time.perf_counter()
    model.partial_fit(rows, labels)
    best = min(best, time.perf_counter() - start)
print(f"sparse-lr-sgd 1 1 best={ROWS / best:.0f} version={sklearn.__version__}")
