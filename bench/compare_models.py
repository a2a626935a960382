#!/usr/bin/env python3
"""Models people use beside PyTorch: training steps of ResNet-18, an LSTM, a transformer block and an MLP.

usage: compare_models.py BUILD_DIR [--rounds N] [--seconds S] [--models NAMES] [--threads 1,2]

Each figure is the best of all pieces of several rounds; the programs take turns, so that a noisy moment hits both.
PyTorch is looked for in $SHOAL_PEER_PYTHON, python3 and /usr/bin/python3."""
import argparse
import os
import sys

from compare import brief, find_torch, run, verdict_of

HERE = os.path.dirname(os.path.abspath(__file__))
MODELS = {"resnet18": "ResNet-18, 64x64, batch 32", "lstm": "LSTM, 128 units, 28 steps, batch 64",
          "transformer": "transformer block, 128 wide, 4 heads, length 64, batch 32", "mlp": "MLP 784-512-512-10, batch 128"}
GOAL = 1.2


def best_of(found):
    return max((float(f["examples_per_second"]) for f in found if f), default=None)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("build")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--threads", default="1,2")
    flags = parser.parse_args()
    torch = find_torch()
    print(f"\n{'model':<60} {'threads':>7} {'Shoal':>10} {'PyTorch':>10} {'ratio':>6}  goal {GOAL}")
    for model in flags.models.split(","):
        if model not in MODELS:
            sys.exit(f"compare_models.py: there is no model {model}; there are {', '.join(MODELS)}")
        for threads in flags.threads.split(","):
            own, peer = [], []
            for _ in range(flags.rounds):
                case = [model, threads, str(flags.seconds)]
                own.append(run([os.path.join(flags.build, "bench", "model_bench"), *case]))
                if torch:
                    peer.append(run([torch, os.path.join(HERE, "peer_models_torch.py"), *case]))
            ours, theirs = best_of(own), best_of(peer)
            ratio = ours / theirs if ours and theirs else None
            print(f"{MODELS[model]:<60} {threads:>7} {brief(ours):>10} {brief(theirs):>10} {brief(ratio):>6}  "
                  f"{verdict_of(ratio, GOAL)}", flush=True)


if __name__ == "__main__":
    main()
