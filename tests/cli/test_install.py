"""Installs into a temporary folder and uses what is there: the library through pkg-config with the README's example,
the command, the man page, the completion."""
import os
import pathlib
import re
import subprocess

import support

BUILD = pathlib.Path(os.environ["SHOAL_BUILD"])


class Install(support.Case):
    def run_in(self, *words, **options):
        done = subprocess.run(list(map(str, words)), cwd=self.folder, capture_output=True, text=True,
                              timeout=support.SECONDS, **options)
        self.assertEqual(done.returncode, 0, f"{words}\n{done.stdout}\n{done.stderr}")
        return done.stdout

    def test_readme_example(self):
        staged = self.folder / "staged"
        self.run_in("meson", "install", "-C", BUILD, "--no-rebuild", "--quiet", "--destdir", staged)
        found = {p.name: p for p in staged.rglob("*") if p.is_file() or p.is_symlink()}
        for name in ("libshoal.so", "shoal.pc", "shoal.1", "shoal.h", "train.h", "train-images-idx3-ubyte.gz"):
            self.assertIn(name, found)
        completion = list(staged.rglob("bash-completion/completions/shoal"))
        self.assertEqual(len(completion), 1)
        self.assertIn("SHOAL", found["shoal.1"].read_text())

        readme = (support.ROOT / "README.md").read_text()
        example = re.search(r"<!-- example: compiled and run by the tests -->\s*```c\n(.*?)```", readme, re.DOTALL)
        self.assertTrue(example, "README.md has no marked example")
        self.assertLessEqual(len(example[1].strip().splitlines()), 24)
        (self.folder / "example.c").write_text(example[1])
        env = {**os.environ, "PKG_CONFIG_PATH": str(found["shoal.pc"].parent), "PKG_CONFIG_SYSROOT_DIR": str(staged),
               "SHOAL_DATA": str(self.shared), "LD_LIBRARY_PATH": str(found["libshoal.so"].parent)}
        flags = self.run_in("pkg-config", "--cflags", "--libs", "shoal", env=env).split()
        compiler = os.environ.get("CC", "cc").split()
        self.run_in(*compiler, "-Wall", "-Wextra", "-Werror", "-o", "example", "example.c", *flags)
        env["SHOAL_DATA"] = str(support.ROOT / "data")
        out = self.run_in(self.folder / "example", env=env)
        accuracy = float(re.search(r"([\d.]+) %", out)[1])
        self.assertGreater(accuracy, 85)

        # What is not part of the interface stays inside.
        symbols = self.run_in("nm", "-D", "--defined-only", "-P", found["libshoal.so"])
        names = [line.split()[0].split("@")[0] for line in symbols.splitlines() if line]
        self.assertIn("shoal_model_fit", names)
        self.assertEqual([n for n in names if not n.startswith("shoal_")], [])

        command = next(p for p in staged.rglob("bin/shoal"))
        self.assertRegex(self.run_in(command, "version"), r"^shoal \d")


support.main()
