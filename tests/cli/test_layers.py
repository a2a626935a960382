"""The layer check finds what it is there to find, and finds nothing in this tree."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

TOOL = pathlib.Path(__file__).parent.parent.parent / "tools" / "check_layers.py"


class Layers(unittest.TestCase):
    def check(self, root):
        return subprocess.run([sys.executable, TOOL, root], capture_output=True, text=True)

    def test_this_tree(self):
        done = self.check(TOOL.parent.parent)
        self.assertEqual(done.returncode, 0, done.stdout)

    def test_each_kind_of_breach(self):
        for path, line, word in (("src/base/a.c", '#include "cli/flags.h"', "base must not use cli"),
                                 ("src/graph/b.h", '#  include "exec/plan.h"', "graph must not use exec"),
                                 ("include/shoal/c.h", '#include "base/mem.h"', "public header"),
                                 ("src/odd/d.c", "int x;", "not in the list"),
                                 ("src/base/e.c", '#include "mem.h"', "with its folder")):
            with tempfile.TemporaryDirectory() as root:
                file = pathlib.Path(root) / path
                file.parent.mkdir(parents=True)
                file.write_text(line + "\n")
                done = self.check(root)
                self.assertEqual(done.returncode, 1, path)
                self.assertIn(word, done.stdout)


unittest.main(argv=[sys.argv[0], "-v"])
