"""Follows the pages of docs/tutorials, command by command, with the installed command and library."""
import os
import pathlib
import re
import shutil
import socket
import subprocess

import support
import tutorial

BUILD = pathlib.Path(os.environ["SHOAL_BUILD"])
PAGES = support.ROOT / "docs" / "tutorials"
# Copies to another "machine", which is a folder here.
SCP = """#!/bin/bash
to=${@: -1}
[ "$1" = -r ] && shift
cp -r "${@:1:$#-1}" "$MACHINES/${to%%:*}/${to#*:}"
"""


def free_ports(n):
    sockets = [socket.socket() for _ in range(n)]
    for s in sockets:
        s.bind(("127.0.0.1", 0))
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


class Tutorials(support.Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        staged = cls.shared / "staged"
        subprocess.run(["meson", "install", "-C", BUILD, "--no-rebuild", "--quiet", "--destdir", staged], check=True,
                       stdout=subprocess.DEVNULL)
        found = {p.name: p.parent for p in staged.rglob("*") if p.name in ("libshoal.so", "shoal.pc")}
        programs = next(p.parent for p in staged.rglob("bin/shoal"))
        own = cls.shared / "programs"
        own.mkdir()
        (own / "scp").write_text(SCP)
        (own / "scp").chmod(0o755)
        cls.installed = {**os.environ, "PATH": f"{own}:{programs}:{os.environ['PATH']}",
                         "SHOAL_DATA": str(support.ROOT / "data"), "SHOAL_PLUGINS": str(BUILD),
                         "LD_LIBRARY_PATH": str(found["libshoal.so"]), "PKG_CONFIG_PATH": str(found["shoal.pc"]),
                         "PKG_CONFIG_SYSROOT_DIR": str(staged)}

    def test_own_data(self):
        tutorial.follow(self, tutorial.read(PAGES / "own-data.md"), lambda block: self.folder, self.installed)
        self.assertGreater(self.summary("runs/orders")["test_accuracy"], 0.85)

    def test_operator_of_others(self):
        blocks = [b for b in tutorial.read(PAGES / "operator.md") if "tree" not in b.words]
        self.assertTrue(any(b.language == "c" for b in blocks))
        tutorial.follow(self, blocks, lambda block: self.folder, self.installed)

    def test_cluster(self):
        """Three processes on the loopback, each in the folder of its machine."""
        ports = iter(free_ports(3))
        replace = [(f"node{i}:2222", f"127.0.0.1:{next(ports)}") for i in (1, 2, 3)]
        for i in (1, 2, 3):
            (self.folder / f"node{i}").mkdir()
        tutorial.follow(self, tutorial.read(PAGES / "cluster.md", replace),
                        lambda block: self.folder / block.words["on"],
                        {**self.installed, "MACHINES": str(self.folder)})
        self.assertFalse((self.folder / "node3" / "runs").exists())

    def test_every_page_is_followed(self):
        """operator.md's blocks for a checkout are test_adding.py's."""
        self.assertEqual(sorted(p.name for p in PAGES.glob("*.md")), ["cluster.md", "operator.md", "own-data.md"])
        for page in PAGES.glob("*.md"):
            text = page.read_text()
            self.assertEqual(len(re.findall(r"^```", text, re.MULTILINE)), 2 * len(tutorial.read(page)), page.name)


support.main()
