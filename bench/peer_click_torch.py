#!/usr/bin/env python3
"""A factorization machine or DeepFM by PyTorch on rows in memory: rows a second.

usage: peer_click_torch.py fm|deepfm [FEATURES [BATCH [SECONDS]]]

Rows of 39 ids, few of them frequent, as in a click log. Tables are nn.Embedding(sparse=True), updated by Adagrad; column 0 is
the weight, the others the vector of 16, as in Shoal's models."""
import math
import sys
import time

import torch
from torch import nn

FIELDS, WIDTH, ROWS = 39, 17, 200_000


class Machine(nn.Module):
    def __init__(self, features, deep):
        super().__init__()
        self.table = nn.Embedding(features, WIDTH, sparse=True)
        nn.init.uniform_(self.table.weight, -0.05, 0.05)
        sizes = [FIELDS * (WIDTH - 1), 400, 400, 400]
        layers = [part for a, b in zip(sizes, sizes[1:]) for part in (nn.Linear(a, b), nn.ReLU())]
        self.deep = nn.Sequential(*layers, nn.Linear(400, 1)) if deep else None
        self.bias = nn.Parameter(torch.zeros(1))

    def forward(self, ids):
        rows = self.table(ids)
        vectors = rows[:, :, 1:]
        score = rows[:, :, 0].sum(1) + 0.5 * (vectors.sum(1).square() - vectors.square().sum(1)).sum(1) + self.bias
        return score + self.deep(vectors.flatten(1)).squeeze(1) if self.deep else score


def main():
    name = sys.argv[1]
    features, batch, seconds = (int(sys.argv[i]) if len(sys.argv) > i else usual for i, usual in ((2, 1_000_000), (3, 256), (4, 5)))
    torch.manual_seed(1)
    part = features // FIELDS
    skewed = torch.exp(torch.rand(ROWS, FIELDS, dtype=torch.float64) * math.log(part)).floor().long() - 1
    ids = skewed + part * torch.arange(FIELDS)
    labels = (torch.rand(ROWS) < 0.26).float()
    model = Machine(features, name == "deepfm")
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.02)
    loss = nn.BCEWithLogitsLoss()
    best = 0
    for _ in range(2):
        begun, rows, at = time.perf_counter(), 0, 0
        while time.perf_counter() - begun < seconds / 2:
            optimizer.zero_grad(set_to_none=True)
            loss(model(ids[at:at + batch]), labels[at:at + batch]).backward()
            optimizer.step()
            rows += batch
            at = at + batch if at + 2 * batch <= ROWS else 0
        best = max(best, rows / (time.perf_counter() - begun))
    print(f"best={best:.0f} threads={torch.get_num_threads()} version={torch.__version__}")


main()
