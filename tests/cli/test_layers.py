"""The layer check finds what it is there to find, and finds nothing in this tree; public structs can grow."""
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

TOOL = pathlib.Path(__file__).parent.parent.parent / "tools" / "check_layers.py"


HEADERS = TOOL.parent.parent / "include" / "shoal"
STRUCT = re.compile(r"typedef struct \{\n(.*?)\n\} (shoal_\w+);", re.DOTALL)
# Inside others, or filled for the caller: they end with room for more.
RESERVED = ("shoal_optimizer_options", "shoal_schedule", "shoal_callbacks", "shoal_evaluation", "shoal_times",
            "shoal_fit_result", "shoal_pipeline_statistics", "shoal_cluster_stats", "shoal_convert_result",
            "shoal_criteo_truth", "shoal_report_result", "shoal_machine", "shoal_gemm_baseline", "shoal_square_trace_cost",
            "shoal_square_trace_result")


class Options(unittest.TestCase):
    def test_they_can_grow(self):
        """docs/abi.md: a struct of options begins with its size, or ends with reserved fields."""
        found = {name: body.splitlines() for header in HEADERS.glob("*.h")
                 for body, name in STRUCT.findall(header.read_text())}
        for name, lines in found.items():
            if name in RESERVED:
                self.assertIn("reserved[", lines[-1], name)
            elif name.endswith("_options"):
                self.assertRegex(lines[0], r"^  size_t size;", name)
        self.assertLessEqual(set(RESERVED), set(found))


class Layers(unittest.TestCase):
    def check(self, root):
        return subprocess.run([sys.executable, TOOL, root], capture_output=True, text=True)

    def test_this_tree(self):
        done = self.check(TOOL.parent.parent)
        self.assertEqual(done.returncode, 0, done.stdout)

    def test_each_kind_of_breach(self):
        for path, line, word in (("src/base/a.c", '#include "cli/flags.h"', "base must not use cli"),
                                 ("src/cli/a.c", '#include "base/text.h"', "the command uses"),
                                 ("src/graph/b.h", '#  include "exec/plan.h"', "graph must not use exec"),
                                 ("include/shoal/c.h", '#include "base/mem.h"', "public header"),
                                 ("src/odd/d.c", "int x;", "not in the list"),
                                 ("src/base/e.c", '#include "mem.h"', "with its folder"),
                                 ("src/run/f.c", "json_t *o = json_loads(words, 0, NULL);", "use base/json_read.h")):
            with tempfile.TemporaryDirectory() as root:
                file = pathlib.Path(root) / path
                file.parent.mkdir(parents=True)
                file.write_text(line + "\n")
                done = self.check(root)
                self.assertEqual(done.returncode, 1, path)
                self.assertIn(word, done.stdout)

    def test_the_size_of_the_command(self):
        with tempfile.TemporaryDirectory() as root:
            file = pathlib.Path(root) / "src" / "cli" / "a.c"
            file.parent.mkdir(parents=True)
            for lines, code in ((5000, 0), (5001, 1)):
                file.write_text("\n" * lines)
                done = self.check(root)
                self.assertEqual(done.returncode, code, done.stdout)
            self.assertIn("5001 lines", done.stdout)

    def test_the_interfaces_of_the_loop(self):
        with tempfile.TemporaryDirectory() as root:
            folder = pathlib.Path(root) / "src" / "train"
            folder.mkdir(parents=True)
            header, source = folder / "strategy.h", folder / "local.c"
            functions = [f"f{i}" for i in range(9)]

            def write(functions, implemented):
                header.write_text("typedef struct {\n" + "".join(f"  int (*{f})(int x);\n" for f in functions) + "} strategy_kind;\n")
                source.write_text("static const strategy_kind kind = {" + ", ".join(f".{f} = {f}" for f in implemented) + "};\n")
                return self.check(root)

            self.assertEqual(write(functions, functions).returncode, 0)
            self.assertIn("no function `f8`", write(functions, functions[:8]).stdout)
            self.assertIn("more than 9 functions", write(functions + ["f9"], functions + ["f9"]).stdout)


unittest.main(argv=[sys.argv[0], "-v"])
