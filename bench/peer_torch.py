"""The same training in PyTorch: one line for each batch size asked for, in the form of train_bench.

usage: peer_torch.py MODEL BATCH THREADS SECONDS

MODEL is softmax (784-10) or lenet5 (relu, max pool). Random data in memory, warm, best of many pieces; the figure does
not depend on the numbers, since every operation is dense."""
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

EXAMPLES = 6000


class LeNet5(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 6, 5, padding=2)
        self.conv2 = nn.Conv2d(6, 16, 5)
        self.dense1 = nn.Linear(400, 120)
        self.dense2 = nn.Linear(120, 84)
        self.dense3 = nn.Linear(84, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        x = F.relu(self.dense1(x.flatten(1)))
        return self.dense3(F.relu(self.dense2(x)))


def main():
    name, batch, threads, seconds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    x = torch.rand(EXAMPLES, 784)
    y = torch.randint(0, 10, (EXAMPLES,))
    if name == "lenet5":
        model, x = LeNet5(), x.view(-1, 1, 28, 28)
    else:
        model = nn.Linear(784, 10)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    steps = max(1, min(300, EXAMPLES // batch))
    rates = []
    start = time.perf_counter()
    while len(rates) < 5 or time.perf_counter() - start < seconds:
        begin = time.perf_counter()
        for i in range(steps):
            at = (i * batch) % (EXAMPLES - batch + 1)
            optimizer.zero_grad(set_to_none=True)
            loss = F.cross_entropy(model(x[at:at + batch]), y[at:at + batch])
            loss.backward()
            optimizer.step()
        rates.append(steps * batch / (time.perf_counter() - begin))
    rates.sort()
    print(f"{name} {batch} {threads} best={rates[-1]:.0f} median={rates[len(rates) // 2]:.0f} "
          f"version={torch.__version__}")


main()
