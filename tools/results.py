#!/usr/bin/env python3
"""Runs the experiments of `shoal reproduce` at full size and writes docs/results.md: each table beside the reported figures.

  tools/results.py SHOAL [ID...]      all of them without an ID; others keep the results they have
  tools/results.py --page             only writes the page again from what was kept

Results are kept in docs/results.json, one entry an experiment. Runs lie in runs/results/ID; one that was interrupted is
gone on with, one that is finished is made anew.
"""
import argparse
import datetime
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
KEPT = ROOT / "docs" / "results.json"
PAGE = ROOT / "docs" / "results.md"
MACHINE = ("processor", "cores", "kernels", "multiply-adds", "memory")

HEAD = """# Results

The experiments that were reported of earlier systems, run by `shoal reproduce` at full size with the settings of its
presets, beside the reported figures. This page is made by `make reproduce`; `make reproduce IDS="A1 D2"` runs some and
keeps the others. Each table names its machine, the commit, how long it took, and how busy the machine was before (the
load average; 0 is idle): times of a busy machine are no measure of speed.
"""


def output_of(*words):
    return subprocess.run(words, cwd=ROOT, check=True, capture_output=True, text=True).stdout


def commit():
    """The commit, and whether files that are part of it were changed."""
    try:
        name = output_of("git", "rev-parse", "--short=10", "HEAD").strip()
        changed = output_of("git", "status", "--porcelain", "--untracked-files=no", "--", "src", "include", "meson.build")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return name + (" with changes" if changed.strip() else "")


def machine(shoal):
    facts = json.loads(output_of(shoal, "doctor", "--json"))["machine"]
    return {name: facts[name] for name in MACHINE if name in facts}


def known_ids(shoal):
    return re.findall(r"^  (\S+)  ", output_of(shoal, "reproduce", "--list"), re.MULTILINE)


def reproduce(shoal, name):
    """Runs one experiment; its entry, or None when it failed."""
    folder = ROOT / "runs" / "results" / name
    if (folder / "done").exists():
        shutil.rmtree(folder)
    entry = {"machine": machine(shoal), "commit": commit(), "load": round(os.getloadavg()[0], 1),
             "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d")}
    start = time.monotonic()
    code = subprocess.run([shoal, "reproduce", name, "--run-dir", folder.relative_to(ROOT)], cwd=ROOT).returncode
    if code:
        print(f"{name}: shoal reproduce ended with {code}; the result kept so far stays", file=sys.stderr)
        return None
    entry["seconds"] = round(time.monotonic() - start, 1)
    entry.update(json.loads((folder / "comparison.json").read_text()))
    (folder / "done").touch()
    return entry


def duration(seconds):
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def table(columns, rows):
    def line(cells):
        return "| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |\n"
    return line(columns) + "|---|" + "--:|" * (len(columns) - 1) + "\n" + "".join(map(line, rows))


def section(entry):
    facts = entry["machine"]
    where = "; ".join(f"{name} {facts[name]}" for name in MACHINE if name in facts)
    text = f"## {entry['title']}\n\n{table(entry['columns'], entry['rows'])}\n"
    text += "".join(note.strip() + "\n\n" for note in entry["notes"])
    return text + (f"{entry['date']}, commit {entry['commit']}, {duration(entry['seconds'])} in all, "
                   f"load {entry['load']} before. Machine: {where}.\n")


def by_id(name):
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name)]


def write_page(kept):
    PAGE.write_text(HEAD + "".join("\n" + section(kept[name]) for name in sorted(kept, key=by_id)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--page", action="store_true", help="only write the page")
    parser.add_argument("shoal", nargs="?", help="the program")
    parser.add_argument("ids", nargs="*", metavar="ID")
    given = parser.parse_args()
    kept = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    failed = []
    if not given.page:
        if not given.shoal:
            parser.error("which program? e.g. build/shoal")
        shoal = str(pathlib.Path(given.shoal).resolve())
        known = known_ids(shoal)
        unknown = [name for name in given.ids if name not in known]
        if unknown:
            parser.error(f"unknown experiment {unknown[0]}; known are {' '.join(known)}")
        for name in given.ids or known:
            entry = reproduce(shoal, name)
            if not entry:
                failed.append(name)
                continue
            kept[name] = entry
            KEPT.write_text(json.dumps(kept, indent=1, ensure_ascii=False, sort_keys=True) + "\n")
    write_page(kept)
    print(f"wrote {PAGE.relative_to(ROOT)}: {len(kept)} experiments")
    if failed:
        sys.exit(f"failed: {' '.join(failed)}")


main()
