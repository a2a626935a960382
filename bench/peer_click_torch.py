#!/usr/bin/env python3
"""A factorization machine or DeepFM by PyTorch on the rows of a click log in memory: rows a second.

usage: peer_click_torch.py fm|deepfm ROWS.tsv [FEATURES [BATCH [SECONDS]]]

ROWS.tsv is read before the clock starts, the first 100,000 rows. Numbers are ids 1 to 13 with sign(x) log2(1 + |x|) as value,
words are hashed, as Shoal has them. Tables are nn.Embedding(sparse=True), updated by Adagrad; column 0 is the weight, the others
the vector of 16. Threads: OMP_NUM_THREADS."""
import itertools
import math
import sys
import time
import zlib

import torch
from torch import nn

NUMBERS, FIELDS, WIDTH, ROWS = 13, 39, 17, 100_000


class Machine(nn.Module):
    def __init__(self, features, deep):
        super().__init__()
        self.table = nn.Embedding(features, WIDTH, sparse=True)
        nn.init.uniform_(self.table.weight, -0.05, 0.05)
        sizes = [FIELDS * (WIDTH - 1), 400, 400, 400]
        layers = [part for a, b in zip(sizes, sizes[1:]) for part in (nn.Linear(a, b), nn.ReLU())]
        self.deep = nn.Sequential(*layers, nn.Linear(400, 1)) if deep else None
        self.bias = nn.Parameter(torch.zeros(1))

    def forward(self, ids, values):
        rows = self.table(ids) * values.unsqueeze(2)
        vectors = rows[:, :, 1:]
        score = rows[:, :, 0].sum(1) + 0.5 * (vectors.sum(1).square() - vectors.square().sum(1)).sum(1) + self.bias
        return score + self.deep(vectors.flatten(1)).squeeze(1) if self.deep else score


def read_rows(path, features):
    """Labels, ids and values; what is missing has the value 0."""
    labels, ids, values = [], [], []
    with open(path) as f:
        for line in itertools.islice(f, ROWS):
            label, *cells = line.rstrip("\n").split("\t")
            labels.append(float(label))
            for i, cell in enumerate(cells):
                if i < NUMBERS:
                    x = float(cell or 0)
                    ids.append(1 + i)
                    values.append(math.copysign(math.log2(1 + abs(x)), x))
                else:
                    ids.append(14 + zlib.crc32(b"%d %s" % (i, cell.encode())) % (features - 14))
                    values.append(1.0 if cell else 0.0)
    return torch.tensor(labels), torch.tensor(ids).view(-1, FIELDS), torch.tensor(values).view(-1, FIELDS)


def main():
    name, path = sys.argv[1:3]
    features, batch, seconds = (int(sys.argv[i]) if len(sys.argv) > i else usual for i, usual in ((3, 1_000_000), (4, 256), (5, 5)))
    torch.manual_seed(1)
    labels, ids, values = read_rows(path, features)
    model = Machine(features, name == "deepfm")
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.02)
    loss = nn.BCEWithLogitsLoss()
    best = 0
    for _ in range(2):
        begun, rows, at = time.perf_counter(), 0, 0
        while time.perf_counter() - begun < seconds / 2:
            optimizer.zero_grad(set_to_none=True)
            loss(model(ids[at:at + batch], values[at:at + batch]), labels[at:at + batch]).backward()
            optimizer.step()
            rows += batch
            at = at + batch if at + 2 * batch <= len(labels) else 0
        best = max(best, rows / (time.perf_counter() - begun))
    print(f"best={best:.0f} threads={torch.get_num_threads()} version={torch.__version__}")


main()
