"""The declarations are those of the headers, everything can be reached, and importing costs little."""
import ctypes
import os
import pathlib
import re
import subprocess
import sys
import zlib

import support

support.need("numpy")
sys.path.append(str(support.ROOT / "python"))
import generate  # noqa: E402
import shoal  # noqa: E402
from shoal import native  # noqa: E402

HEADERS = sorted(map(str, (support.ROOT / "include/shoal").glob("*.h")))
PACKAGE = pathlib.Path(shoal.__file__).parent


class Declarations(support.Case):
    def test_as_the_compiler_sees_them(self):
        source, program = self.folder / "check.c", self.folder / "check"
        source.write_text(generate.check(generate.read(HEADERS)))
        subprocess.run(["cc", "-w", "-O0", f"-I{support.ROOT / 'include'}", "-o", program, source], check=True, timeout=60)
        lines = subprocess.run([program], check=True, capture_output=True, text=True, timeout=60).stdout.splitlines()
        self.assertGreater(len(lines), 600)
        for line in lines:
            kind, name, value = line.split()
            if kind == "size":
                found = ctypes.sizeof(getattr(native, name))
            elif kind == "offset":
                struct, _, member = name.partition(".")
                found = getattr(getattr(native, struct), member).offset
            else:
                found = getattr(native, name)
            self.assertEqual(int(value), found, line)

    def test_every_function_is_declared(self):
        listed = subprocess.run(["nm", "-D", "--defined-only", os.environ["SHOAL_LIBRARY"]], check=True, capture_output=True, text=True)
        exported = set(re.findall(r" T (shoal_\w+)$", listed.stdout, re.MULTILINE))
        self.assertEqual(set(generate.read(HEADERS).functions), exported)
        for name in exported - {"shoal_status_make_v"}:
            self.assertIsNotNone(getattr(native.lib, name).argtypes, name)

    def test_every_operator_has_a_function(self):
        headers = generate.read(HEADERS)
        _, others = generate.operators(headers)
        by_hand = (PACKAGE / "graph.py").read_text()
        missing = [name for name in others if headers.functions[name].type.result.base == "shoal_value"
                   and not name.startswith("shoal_graph_") and f"lib.{name}" not in by_hand]
        self.assertEqual(missing, [], "operators with parameters of a new kind are written by hand, in python/shoal/graph.py")


class Import(support.Case):
    def test_cost(self):
        code = ("import time, sys, numpy; start = time.process_time(); import shoal; spent = time.process_time() - start; "
                "import resource; print(spent, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)")
        kept = {**os.environ, "PYTHONPYCACHEPREFIX": str(self.folder), "PYTHONDONTWRITEBYTECODE": ""}
        self.python("import shoal", env=kept)
        seconds, megabytes = map(float, self.python(code, env=kept).split())
        self.assertLess(seconds, 0.15)  # of the processor; NumPy's own is not ours
        self.assertLess(megabytes, 60)

    def test_size(self):
        """Of what a wheel holds: the library and the command without symbols, packed."""
        packed = 0
        for path in (os.environ["SHOAL_LIBRARY"], os.environ["SHOAL_BIN"]):
            subprocess.run(["strip", "-o", self.folder / "stripped", path], check=True, timeout=60)
            packed += len(zlib.compress((self.folder / "stripped").read_bytes()))
        packed += sum(len(zlib.compress(path.read_bytes())) for path in PACKAGE.glob("*.py"))
        self.assertLess(packed, 8e6)

    def test_version_and_command(self):
        self.assertRegex(shoal.__version__, r"^\d+\.\d+\.\d+$")
        done = subprocess.run([sys.executable, "-m", "shoal", "--version"], capture_output=True, text=True, timeout=60)
        self.assertIn(shoal.__version__, done.stdout)

    def test_missing_library_is_explained(self):
        out = self.python("try:\n  import shoal\nexcept OSError as e: print(e)", env={**os.environ, "SHOAL_LIBRARY": "/nowhere.so"})
        self.assertIn("SHOAL_LIBRARY", out)

    def test_types_and_style(self):
        settings = str(support.ROOT / "pyproject.toml")
        for tool in (["mypy", "--strict", "--config-file", settings, str(PACKAGE)],
                     ["ruff", "check", "--no-cache", "--no-respect-gitignore", "--config", settings, str(PACKAGE), str(support.ROOT / "python")]):
            try:
                __import__(tool[0])
            except ImportError:
                print(f"skipped: no {tool[0]}")
                continue
            done = subprocess.run([sys.executable, "-m", *tool], capture_output=True, text=True, timeout=200, cwd=self.folder)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    support.main()
