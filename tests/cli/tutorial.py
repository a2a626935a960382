"""Takes a page of docs/tutorials apart and does what it says.

Words after a block's language say what it is for; pages do not show them:

    ```sh                     commands, run as they stand by bash in the reader's folder; the first that fails ends them
    ```c file=orders.c        a file that the reader writes
    ```diff                   changes that the reader makes to files
    ```text                   what the commands before it print: numbers may differ, ... stands for anything
    on=node2                  on that machine: in a folder of its own
    with=train                at the same time as the other blocks with that word
    status=any                the commands' exit status does not count
    tree                      in a checkout
"""
import pathlib
import re
import subprocess

FENCE = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NUMBER = re.compile(r"[-+]?\d+(?:,\d{3})*(?:\.\d+)?")
SECONDS = 400  # a checkout may have to be built


class Block:
    def __init__(self, page, language, words, text):
        self.page, self.language, self.text = page, language, text
        self.words = dict((w.split("=", 1) + [""])[:2] for w in words.split())
        self.output = None

    def __str__(self):
        return f"{self.page}:\n{self.text}"


def read(path, replace=()):
    """The blocks of a page. replace: pairs (text, other text), such as addresses that only the reader has."""
    page = path.read_text()
    for old, new in replace:
        page = page.replace(old, new)
    return [Block(path.name, *found.groups()) for found in FENCE.finditer(page)]


def pattern(expected):
    """A regular expression for output that looks like `expected`."""
    lines = []
    for line in expected.strip().splitlines():
        if line.strip() == "...":
            lines.append(r"(?:[^\n]*\n)*?")
            continue
        words = [".*" if w == "..." else NUMBER.sub("0", w) for w in line.split()]
        lines.append(r"[ ]*".join(w if w == ".*" else re.escape(w) for w in words) + r"[ ]*\n")
    return "".join(lines)


def plain(output):
    return "".join(" ".join(NUMBER.sub("0", line).split()) + "\n" for line in output.strip().splitlines())


def follow(case, blocks, place, environment):
    """Does what the blocks say. place(block): the folder for it. A block that goes wrong fails the test."""
    groups = []
    for block in blocks:
        joined = block.words.get("with")
        if joined and groups and groups[-1][0].words.get("with") == joined:
            groups[-1].append(block)
        elif block.language == "text" and groups:
            groups[-1].append(block)
        else:
            groups.append([block])
    for group in groups:
        follow_group(case, group, place, environment)


def follow_group(case, group, place, environment):
    commands = [b for b in group if b.language == "sh"]
    tasks = [subprocess.Popen(["bash", "-e", "-c", b.text], cwd=place(b), env=environment, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE) for b in commands]
    for block, task in zip(commands, tasks):
        try:
            block.output, errors = task.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            for other in tasks:
                other.kill()
            case.fail(f"takes more than {SECONDS} s: {block}")
        if block.words.get("status") != "any":
            case.assertEqual(task.returncode, 0, f"{block}\nprinted\n{block.output}\n{errors}")
    last = None
    for block in group:
        if block.language == "sh":
            last = block
        elif block.language == "text":
            case.assertIsNotNone(last, f"output of no commands: {block}")
            case.assertRegex(plain(last.output), rf"^{pattern(block.text)}$", f"{last}\nprints something else")
        elif block.language == "diff":
            done = subprocess.run(["patch", "-p1", "--no-backup-if-mismatch"], input=block.text, cwd=place(block),
                                  capture_output=True, text=True)
            case.assertEqual(done.returncode, 0, f"{block}\n{done.stdout}")
        elif "file" in block.words:
            path = pathlib.Path(place(block)) / block.words["file"]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text)
        else:
            case.fail(f"neither commands nor a file: {block}")
