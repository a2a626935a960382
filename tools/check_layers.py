#!/usr/bin/env python3
"""Fails when a file includes a header of a lower layer, when a file of the command includes anything but public headers
and the command's own, when the command has grown beyond CLI_LINES_MAX lines, when a file calls what base/ has a safer
form of, or when the interfaces of the training loop (strategy and batch source) have more than LOOP_FUNCTIONS_MAX
functions or a strategy lacks one of them.

usage: check_layers.py [ROOT]
"""
import pathlib
import re
import sys

LAYERS = ["base", "tensor", "kernel", "graph", "exec", "data", "net", "cluster", "dist", "train", "observe", "models",
          "exchange", "run", "cli"]
CLI_LINES_MAX = 5000
LOOP_FUNCTIONS_MAX = 9
LOOP_INTERFACES = {"src/train/strategy.h": "strategy_kind", "src/train/batch_source.h": "batch_source_kind"}
# jansson's reader and writer of texts lose characters when memory runs out.
SAFE_FORMS = {re.compile(r"\bjson_load\w*\("): "base/json_read.h", re.compile(r"\bjson_dumps\("): "base/json_text.h"}
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


def check_command(root):
    """The command is flags in, text out: what is more belongs to the library."""
    lines = sum(path.read_text().count("\n") for path in (root / "src" / "cli").glob("*.[ch]"))
    if lines > CLI_LINES_MAX:
        yield f"src/cli: {lines} lines, but {CLI_LINES_MAX} are the limit: move what programs can use into the library"


def check_calls(root):
    for path in sorted((root / "src").rglob("*.[ch]")):
        for call, header in SAFE_FORMS.items():
            for found in call.findall(path.read_text()):
                yield f"{path.relative_to(root)}: {found}...): use {header}"


def functions_of(text, name):
    """The function pointers of a struct."""
    body = re.search(r"typedef struct \{((?:(?!typedef struct).)*?)\n\} " + name + ";", text, re.DOTALL)
    return re.findall(r"\(\*(\w+)\)\(", body[1]) if body else []


def check_loop(root):
    """One loop, one small interface for each of its two sides, without holes."""
    functions = {}
    for path, name in LOOP_INTERFACES.items():
        if (root / path).exists():
            functions[name] = functions_of((root / path).read_text(), name)
            if not functions[name]:
                yield f"{path}: {name} was not found"
    if sum(map(len, functions.values())) > LOOP_FUNCTIONS_MAX:
        yield f"src/train: more than {LOOP_FUNCTIONS_MAX} functions in {', '.join(functions)}"
    for path in sorted((root / "src" / "train").glob("*.c")):
        for body in re.findall(r"strategy_kind \w+ = \{(.*?)\};", path.read_text(), re.DOTALL):
            for name in functions.get("strategy_kind", []):
                if not re.search(rf"\.{name} = (?!NULL)", body):
                    yield f"{path.relative_to(root)}: the strategy has no function `{name}`"


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent).resolve()
    problems = [*check(root), *check_command(root), *check_calls(root), *check_loop(root)]
    for line in problems:
        print(line)
    print(f"layers: {len(problems)} problem{'' if len(problems) == 1 else 's'}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
