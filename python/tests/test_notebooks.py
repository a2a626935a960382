"""Every notebook of docs/tutorials does what it says, and so do the README's lines of Python."""
import json
import os
import re

import support

support.need("numpy")
BOOKS = support.ROOT / "docs" / "tutorials"


def has(*modules):
    try:
        for name in modules:
            __import__(name)
    except ImportError:
        return False
    return True


class Notebooks(support.Case):
    def follow(self, name, then, timeout=400, **more):
        """The cells one after the other, and what is checked behind them; returns what they print."""
        book = json.loads((BOOKS / f"{name}.ipynb").read_text(encoding="utf-8"))
        self.assertFalse(any(cell.get("outputs") for cell in book["cells"]), f"{name}: clear the outputs")
        cells = ["".join(cell["source"]) for cell in book["cells"] if cell["cell_type"] == "code"]
        return self.python("\n".join(cells) + "\n" + then, timeout=timeout, **more)

    def test_mnist(self):
        self.follow("mnist", "assert accuracy > 0.95, accuracy")

    def test_keras(self):
        self.follow("keras", "assert accuracy > 0.8, accuracy")

    def test_clicks(self):
        self.follow("clicks", "for s in (scores, parallel): assert s['loss'] < truth['constant_log_loss'] - 0.05, s")

    def test_spark(self):
        if not has("pyspark"):
            print("skipped: no pyspark")
            return
        here = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_LOCAL_HOSTNAME": "localhost"}
        self.follow("spark", "assert accuracy > 0.9, accuracy", timeout=1000, env=here)

    def test_all_of_them(self):
        tested = {name[len("test_"):] for name in dir(self) if name.startswith("test_")}
        self.assertLessEqual({path.stem for path in BOOKS.glob("*.ipynb")}, tested)

    def test_readme(self):
        lines = re.search(r"```python\n(.*?)```", (support.ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)[1]
        self.assertLessEqual(len(lines.strip().splitlines()), 12)
        out = self.python(lines, timeout=400)
        self.assertGreater(float(re.search(r"([\d.]+) %", out)[1]), 95, out)


class InJupyter(support.Case):
    def test_what_is_shown(self):
        """A bar, the layers as a table, the run's page: by a real kernel."""
        if not has("nbclient", "nbformat", "ipykernel"):
            print("skipped: no nbclient, nbformat and ipykernel")
            return
        import nbclient
        import nbformat
        book = nbformat.read(BOOKS / "mnist.ipynb", 4)
        nbclient.NotebookClient(book, timeout=400, resources={"metadata": {"path": str(self.folder)}}).execute()
        shown = json.dumps([cell.get("outputs", []) for cell in book.cells])
        for word in ("<progress", "<table", "max_pooling2d", "<iframe"):
            self.assertIn(word, shown)


if __name__ == "__main__":
    support.main()
