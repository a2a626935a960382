#!/usr/bin/env python3
"""Fails when a file includes a header from a folder that stands below its own in the list of layers, or when a file of
the command includes anything but public headers and the command's own.

usage: check_layers.py [ROOT]
"""
import pathlib
import re
import sys

LAYERS = ["base", "tensor", "kernel", "graph", "exec", "data", "net", "cluster", "dist", "train", "observe", "models",
          "exchange", "run", "cli"]
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)


def check(root):
    """Yields a line for each include that is not allowed."""
    rank = {name: i for i, name in enumerate(LAYERS)}
    files = 0
    for path in sorted((root / "include").rglob("*.h")):
        files += 1
        for name in INCLUDE.findall(path.read_text()):
            if not name.startswith("shoal/"):
                yield f'{path.relative_to(root)}: a public header must not include "{name}"'
    for path in sorted((root / "src").rglob("*.[ch]")):
        files += 1
        own = path.relative_to(root / "src").parts[0]
        if own not in rank:
            yield f"{path.relative_to(root)}: src/{own} is not in the list of layers in tools/check_layers.py"
            continue
        for name in INCLUDE.findall(path.read_text()):
            if name.startswith("shoal/"):
                continue
            folder = name.split("/")[0]
            if own == "cli" and folder != "cli":
                yield f'{path.relative_to(root)}: the command uses "shoal/*.h" and "cli/*.h" alone, not "{name}"'
            elif folder not in rank or "/" not in name:
                yield f'{path.relative_to(root)}: write "{name}" with its folder, as seen from src/'
            elif rank[folder] > rank[own]:
                yield f'{path.relative_to(root)}: {own} must not use {folder} ("{name}"), which stands below it'
    if not files:
        yield f"{root}: no files found"


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent).resolve()
    problems = list(check(root))
    for line in problems:
        print(line)
    print(f"layers: {len(problems)} problem{'' if len(problems) == 1 else 's'}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
