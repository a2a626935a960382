#!/usr/bin/env python3
"""The same training in PyTorch: data in memory as floats, in order, warm; best and median of many pieces.

usage: peer_torch.py MODEL BATCH THREADS [SECONDS]
Prints one line like train_bench: MODEL BATCH THREADS best=EXAMPLES_PER_SECOND median=EXAMPLES_PER_SECOND
"""
import statistics
import sys
import time

import torch
from torch import nn


def build(model):
    """The network, and the shape of its examples."""
    if model == "softmax":
        return nn.Linear(784, 10), (784,)
    if model not in ("lenet", "lenet5"):
        sys.exit(f"peer_torch: no model '{model}': softmax, lenet, lenet5")
    modern = model == "lenet5"
    activation = nn.ReLU if modern else nn.Tanh
    pool = nn.MaxPool2d if modern else nn.AvgPool2d
    return nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), activation(), pool(2),
        nn.Conv2d(6, 16, 5), activation(), pool(2), nn.Flatten(),
        nn.Linear(400, 120), activation(), nn.Linear(120, 84), activation(), nn.Linear(84, 10)), (1, 28, 28)


def main():
    model, batch, threads = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    seconds = float(sys.argv[4]) if len(sys.argv) > 4 else 3
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    network, shape = build(model)
    rows = 6000
    x, y = torch.rand(rows, *shape), torch.randint(0, 10, (rows,))
    update = torch.optim.SGD(network.parameters(), lr=0.05)
    loss_of = nn.CrossEntropyLoss()

    def piece():
        """About as many examples as a piece of train_bench."""
        steps = 12000 // batch + 1
        start = time.perf_counter()
        for step in range(steps):
            at = step * batch % (rows - batch + 1)
            update.zero_grad(set_to_none=True)
            loss_of(network(x[at:at + batch]), y[at:at + batch]).backward()
            update.step()
        return steps * batch / (time.perf_counter() - start)

    piece()
    rates, end = [], time.perf_counter() + seconds
    while len(rates) < 5 or time.perf_counter() < end:
        rates.append(piece())
    print(f"{model} {batch} {threads} best={max(rates):.0f} median={statistics.median(rates):.0f}")


if __name__ == "__main__":
    main()
