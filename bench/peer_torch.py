"""The same training in PyTorch: one line for each batch size asked for, in the form of train_bench.

usage: peer_torch.py MODEL BATCH THREADS SECONDS

MODEL is softmax (784-10), lenet5 (relu, max pool) or alexnet (256x256 images, dropout, momentum and L2 as
`shoal train alexnet` has them). Random data in memory, warm, best of many pieces; the figure does
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


class AlexNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 64, 11, 4), nn.MaxPool2d(3, 2), nn.ReLU(True),
            nn.Conv2d(64, 192, 5, padding=2), nn.ReLU(True), nn.MaxPool2d(3, 2),
            nn.Conv2d(192, 384, 3, padding=1), nn.Conv2d(384, 256, 3, padding=1), nn.ReLU(True),
            nn.Conv2d(256, 256, 3, padding=1), nn.MaxPool2d(3, 2), nn.ReLU(True))
        self.classes = nn.Sequential(
            nn.Linear(9216, 4096), nn.ReLU(True), nn.Dropout(0.25),
            nn.Linear(4096, 4096), nn.ReLU(True), nn.Dropout(0.25), nn.Linear(4096, 1000))

    def forward(self, x):
        return self.classes(self.features(x).flatten(1))


def main():
    name, batch, threads, seconds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    examples = batch if name == "alexnet" else EXAMPLES
    x = torch.rand(examples, 784) if name != "alexnet" else torch.rand(examples, 3, 256, 256)
    y = torch.randint(0, 10, (examples,))
    if name == "alexnet":
        model = AlexNet()
    elif name == "lenet5":
        model, x = LeNet5(), x.view(-1, 1, 28, 28)
    else:
        model = nn.Linear(784, 10)
    if name == "alexnet":
        optimizer = torch.optim.SGD(model.parameters(), lr=0.001, momentum=0.9, weight_decay=0.0005)
    else:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    steps = max(1, min(300, examples // batch))
    rates = []
    start = time.perf_counter()
    while len(rates) < 5 or time.perf_counter() - start < seconds:
        begin = time.perf_counter()
        for i in range(steps):
            at = (i * batch) % (examples - batch + 1)
            optimizer.zero_grad(set_to_none=True)
            loss = F.cross_entropy(model(x[at:at + batch]), y[at:at + batch])
            loss.backward()
            optimizer.step()
        rates.append(steps * batch / (time.perf_counter() - begin))
    rates.sort()
    print(f"{name} {batch} {threads} best={rates[-1]:.1f} median={rates[len(rates) // 2]:.1f} "
          f"version={torch.__version__}")


main()
