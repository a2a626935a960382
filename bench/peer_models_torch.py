"""The same models in PyTorch: one line in the form of model_bench.

usage: peer_models_torch.py MODEL THREADS SECONDS"""
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

CLASSES = 10


class Block(nn.Module):
    """Two convolutions, added to what goes in."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(outputs)
        self.short = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)) \
            if inputs != outputs else nn.Identity()

    def forward(self, x):
        y = F.relu(self.norm1(self.conv1(x)))
        return F.relu(self.short(x) + self.norm2(self.conv2(y)))


def resnet18():
    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    inputs = 64
    for stage in range(4):
        for block in range(2):
            layers.append(Block(inputs, 64 << stage, 2 if stage and not block else 1))
            inputs = 64 << stage
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, CLASSES))


class Lstm(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(28, 128, batch_first=True)
        self.out = nn.Linear(128, CLASSES)

    def forward(self, x):
        return self.out(self.lstm(x)[0][:, -1])


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.block = nn.TransformerEncoderLayer(128, 4, 512, 0, "gelu", batch_first=True, norm_first=True)
        self.out = nn.Linear(128, CLASSES)

    def forward(self, x):
        return self.out(self.block(x).mean(1))


def mlp():
    return nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, CLASSES))


MODELS = {"resnet18": (resnet18, 32, (3, 64, 64)), "lstm": (Lstm, 64, (28, 28)), "transformer": (Transformer, 32, (64, 128)),
          "mlp": (mlp, 128, (784,))}


def main():
    name, threads, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    make, batch, shape = MODELS[name]
    model, x, y = make(), torch.rand(batch, *shape), torch.randint(0, CLASSES, (batch,))
    if name == "resnet18":  # the order in memory that suits its convolutions on a processor
        model, x = model.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)

    def step():
        optimizer.zero_grad(set_to_none=True)
        F.cross_entropy(model(x), y).backward()
        optimizer.step()

    for _ in range(3):
        step()
    best, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        runs, begun, took = 0, time.perf_counter(), 0
        while took < seconds / 20:
            step()
            runs += 1
            took = time.perf_counter() - begun
        best = max(best, runs * batch / took)
    print(f"{name} {batch} {threads} examples_per_second={best:.1f}")


if __name__ == "__main__":
    main()
