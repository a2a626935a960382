#!/usr/bin/env python3
"""Makes the pictures of the page in docs/: real runs, a real browser.

usage: tools/screenshots.py BUILD_DIR
Needs what `tools/setup.sh browser` installs. Takes about a minute.
"""
import os
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "cli"))
import browser  # noqa: E402

RUNS = {
    "lenet-tanh": ["--epochs", "3"],
    "lenet-relu-momentum": ["--epochs", "3", "--activation", "relu", "--pool", "max", "--optimizer", "momentum", "--lr", "0.02"],
    "lenet-2-workers": ["--epochs", "3", "--workers", "2"],
    "lenet-2-workers-scaled": ["--epochs", "3", "--workers", "2", "--scale-lr"],
}
CENTRE = """const c = [...document.querySelectorAll('.chart')].find(e => e.querySelector('h3').textContent === arguments[0]);
const b = c.querySelector('.u-over').getBoundingClientRect(); return [b.left + .45 * b.width, b.top + .5 * b.height]"""


def hover(b, title):
    x, y = b.run(CENTRE, title)
    b.pointer(("move", x, y))
    b.wait("return !document.querySelector('.tip').hidden")


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    if browser.missing():
        sys.exit(browser.missing())
    shoal, docs = pathlib.Path(sys.argv[1]).resolve() / "shoal", ROOT / "docs"
    environment = {**os.environ, "SHOAL_DATA": str(ROOT / "data")}
    with tempfile.TemporaryDirectory() as work:
        def run(*words):
            subprocess.run([shoal, *words], cwd=work, env=environment, check=True, stdout=subprocess.DEVNULL)
        for name, flags in RUNS.items():
            run("train", "lenet", "--run-dir", f"runs/{name}", "--no-checkpoints", "--sample-every", "0.2", "--quiet", *flags)
        run("report", *[f"runs/{name}" for name in RUNS], "-o", "page.html")
        run("sweep", "softmax", "--batch-size", "50,100,200,400", "--lr", "0.1,0.5,1", "--epochs", "3", "--run-dir", "runs/sweep", "--quiet")
        run("report", "runs/sweep", "-o", "sweep.html")
        for dark in (False, True):
            with browser.Browser(1440, 900, dark=dark) as b:
                b.open(pathlib.Path(work, "page.html").as_uri())
                b.wait("return document.documentElement.dataset.drawn")
                hover(b, "Loss")
                b.picture(docs / f"report-{'dark' if dark else 'light'}.png")
        with browser.Browser(1440, 620) as b:
            b.open(pathlib.Path(work, "sweep.html").as_uri())
            b.wait("return document.documentElement.dataset.drawn")
            b.run("document.querySelector('#sweeps').scrollIntoView({behavior: 'instant'})")
            b.picture(docs / "sweep.png")
        dash = subprocess.Popen([shoal, "dash", "runs", "--port", "0"], cwd=work, stdout=subprocess.PIPE, text=True)
        training = subprocess.Popen([shoal, "train", "lenet", "--run-dir", "runs/now", "--workers", "2", "--epochs", "100",
                                     "--no-checkpoints", "--sample-every", "0.2"], cwd=work, env=environment,
                                    stdout=subprocess.DEVNULL)
        try:
            address = dash.stdout.readline().split()[-1]
            with browser.Browser(1440, 900, dark=True) as b:
                b.open(address)
                b.wait("return [...document.querySelectorAll('.run-name')].some(e => e.textContent === 'now')", seconds=60)
                b.run("[...document.querySelectorAll('.side-head button')].pop().click()")
                for name in ("lenet-2-workers", "now"):
                    b.run("[...document.querySelectorAll('.run-name')].find(e => e.textContent === arguments[0]).click()", name)
                time.sleep(8)
                b.run("document.querySelector('#curves').scrollIntoView({behavior: 'instant'})")
                hover(b, "Accuracy")
                b.picture(docs / "dash-dark.png")
        finally:
            for process in (training, dash):
                process.terminate()
                process.wait(60)


if __name__ == "__main__":
    main()
