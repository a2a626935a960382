"""The page in a real browser: a report from disk, a dashboard while a run trains."""
import subprocess
import sys
import time
import unittest

import browser
import support
import test_page

MISSING = browser.missing() or (None if test_page.has_page() else "this build has no page")

# Figures as a reader sees them: those of the tooltip, and the points a chart holds.
TIP = "const t = document.querySelector('.tip'); return t && !t.hidden ? t.innerText : ''"
CHART = "[...document.querySelectorAll('.chart')].find(c => c.querySelector('h3').textContent === arguments[0])"
BOX = f"const b = {CHART}.querySelector('.u-over').getBoundingClientRect(); return [b.left, b.top, b.width, b.height]"


@unittest.skipIf(MISSING, MISSING)
class InTheBrowser(support.Case):
    def quiet(self, b):
        self.assertEqual([m for m in b.console() if m[0] in ("SEVERE", "WARNING")], [])

    def hover(self, b, title, share):
        left, top, width, height = b.run(BOX, title)
        b.pointer(("move", left + share * width, top + height / 2))
        return b.wait(TIP)

    def test_report_from_disk(self):
        hostile = "<img src=x onerror=\"document.title='broken'\">"
        for name, flags in (("first", ()), (hostile, ("--lr", 0.1))):
            self.train("softmax", "runs/new", "--epochs", 60, *flags)
            (self.folder / "runs" / "new").rename(self.folder / "runs" / name)
        self.shoal("report", "runs", "-o", "page.html")
        with browser.Browser() as b:
            b.open((self.folder / "page.html").as_uri())
            b.wait("return document.documentElement.dataset.drawn")
            self.assertEqual(b.run("return document.querySelectorAll('img').length"), 0)
            self.assertEqual(b.run("return document.title"), "2 runs · Shoal")
            self.assertEqual(b.run("return document.querySelectorAll('#results tbody tr').length"), 2)
            accuracy = f"{100 * self.summary('runs/first')['test_accuracy']:.2f} %"
            self.assertIn(accuracy, b.run("return document.querySelector('#results').innerText"))
            # Hovering tells the values of both runs.
            tip = self.hover(b, "Loss", 0.5)
            self.assertIn("first", tip)
            self.assertIn(hostile, tip)
            self.assertRegex(tip, r"\d\.\d+")
            # A run can be taken out and put back.
            b.click(".runs li:nth-child(1) .tick")
            b.wait("return document.querySelectorAll('#results tbody tr').length === 1")
            b.click(".runs li:nth-child(1) .tick")
            b.wait("return document.querySelectorAll('#results tbody tr').length === 2")
            # Dragging zooms, the button undoes it.
            left, top, width, height = b.run(BOX, "Loss")
            b.pointer(("move", left + 0.3 * width, top + 50), ("down",), ("move", left + 0.6 * width, top + 60), ("up",))
            b.wait("return [...document.querySelectorAll('button')].some(e => e.textContent === 'Reset zoom' && !e.hidden)")
            zoomed = self.hover(b, "Loss", 0.99)
            b.type(".chart .plot", "0")
            b.wait("return [...document.querySelectorAll('button')].every(e => e.textContent !== 'Reset zoom' || e.hidden)")
            self.assertNotEqual(zoomed.splitlines()[0], self.hover(b, "Loss", 0.99).splitlines()[0])
            # By keyboard: the cursor moves and its values are spoken.
            b.type(".chart .plot", browser.KEYS["right"] * 3)
            self.assertRegex(b.wait("return document.querySelector('.chart [aria-live]').textContent"), r"step [\d,]+: .*first \d")
            # Another axis, smoothing, the other theme.
            b.run("document.querySelectorAll('.segments button')[1].click()")
            b.wait("return document.querySelector('.chart .by').textContent === 'by seconds'")
            b.run("const s = document.getElementById('smoothing'); s.value = '0.8'; s.dispatchEvent(new Event('input'))")
            before = b.run("return document.documentElement.dataset.theme")
            b.run("[...document.querySelectorAll('#bar button')].pop().click()")
            b.wait("return document.documentElement.dataset.theme !== arguments[0]", before)
            self.quiet(b)

    def test_dashboard_while_training(self):
        self.train("softmax", "runs/done", "--epochs", 30)
        training = subprocess.Popen([support.SHOAL, "train", "softmax", "--data", self.data, "--run-dir", "runs/now",
                                     "--epochs", "100000000", "--threads", "1", "--no-checkpoints"], cwd=self.folder,
                                    stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=self.environment())
        try:
            with test_page.Dash(self.folder / "runs") as dash, browser.Browser() as b:
                b.open(dash.address)
                b.wait("return [...document.querySelectorAll('.run-name')].some(e => e.textContent === 'now')")
                last = "return Number((document.querySelector('.runs').innerText.match(/running · step ([\\d,]+)/) || ['', '0'])[1].replace(/,/g, ''))"
                first = b.wait(last)
                self.assertGreater(b.wait(f"const n = (() => {{ {last} }})(); return n > arguments[0] ? n : 0", first), first)
                b.wait(f"return {CHART}", "Loss")
                # The curve itself grows: its end moves on while the pointer rests.
                end = int(self.hover(b, "Loss", 0.995).split()[1].replace(",", ""))
                stop = time.monotonic() + 20
                while int(self.hover(b, "Loss", 0.99).split()[1].replace(",", "")) <= end:
                    self.assertLess(time.monotonic(), stop, "the curve does not grow")
                # Switching to the finished run.
                b.run("[...document.querySelectorAll('.run-name')].find(e => e.textContent === 'done').click()")
                b.wait("return document.querySelector('#resources select').selectedOptions[0].textContent === 'done'")
                self.assertIn("live", b.run("return document.querySelector('.live').innerText"))
                self.quiet(b)
        finally:
            training.kill()
            training.wait()

    def test_a_million_points_load_at_once(self):
        test_page.write_long_run(self.folder / "runs" / "long", 1_000_000)
        self.shoal("report", "runs", "-o", "page.html")
        drawn = "return document.documentElement.dataset.drawn && document.querySelectorAll('.u-over').length > 2"
        # A frame of a smooth page takes well under 100 ms even while the pointer moves over a chart.
        slow = """const done = arguments[0]; const o = document.querySelector('.u-over'), r = o.getBoundingClientRect();
                  const t0 = performance.now(); for (let i = 0; i < 50; i++) o.dispatchEvent(new MouseEvent('mousemove',
                    {clientX: r.left + i * r.width / 50, clientY: r.top + 50, bubbles: true})); return (performance.now() - t0) / 50"""
        with browser.Browser() as b, test_page.Dash(self.folder / "runs") as dash:
            for what, address in (("report", (self.folder / "page.html").as_uri()), ("dashboard", dash.address)):
                before = time.monotonic()
                b.open(address)
                b.wait(drawn)
                took = time.monotonic() - before
                move = b.run(slow)
                print(f"a million points: {what} drawn after {took:.2f} s, {move:.1f} ms a move of the pointer")
                self.assertLess(move, 30)
                if "asan" not in str(support.SHOAL):
                    self.assertLess(took, 2 if what == "report" else 4)
            self.quiet(b)


if __name__ == "__main__":
    if MISSING:
        print(f"skipped: {MISSING}")
        sys.exit(77)
    support.main()
