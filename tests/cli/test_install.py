"""Installs into a temporary folder and uses what is there: the library through pkg-config with the README's example and
those in examples/, the command, the man page, the completion."""
import ctypes
import json
import math
import os
import pathlib
import random
import re
import shutil
import socket
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
        version = self.run_in("pkg-config", "--modversion", "shoal", env=env).strip()
        self.assertEqual(self.run_in(command, "version"), f"shoal {version}\n")
        library = ctypes.CDLL(str(found["libshoal.so"]))
        library.shoal_version.restype = ctypes.c_char_p
        self.assertEqual(library.shoal_version().decode(), version)
        self.check_examples(compiler, flags, {**env, "SHOAL_PLUGINS": str(BUILD)}, command)

    def check_examples(self, compiler, flags, env, command):
        """Training on several tasks, from C."""
        def build(name):
            source = support.ROOT / "examples" / f"{name}.c"
            self.assertLessEqual(len(source.read_text().splitlines()), 90)
            self.run_in(*compiler, "-Wall", "-Werror", "-o", name, source, *flags)
            return self.folder / name

        def accuracy(out):
            return float(re.search(r"accuracy ([\d.]+) %\s*$", out)[1])

        self.assertGreater(accuracy(self.run_in(build("lenet_servers"), env=env)), 93)

        self.run_in(command, "data", "generate", "criteo", "--rows", "4600", "--out", "clicks", "--quiet")
        out = self.run_in(build("sparse_lr_servers"), "clicks/tfrecords[01]*", "clicks/tfrecords22", "33762578", env=env)
        rows = int(re.match(r"(\d+) rows, test log loss 0\.\d+, AUC 0\.\d+", out)[1])
        inspected = json.loads(self.run_in(command, "data", "inspect", "clicks/tfrecords[01]*", "--json"))
        self.assertEqual(rows, inspected["rows"])

        if shutil.which("mpirun") and (BUILD / "shoal-mpi.so").exists():
            mpi = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                   "OMPI_MCA_rmaps_base_oversubscribe": "1"}
            out = self.run_in("mpirun", "-n", "2", build("allreduce"), env={**env, **mpi})
            self.assertTrue(out.startswith("2 ranks"), out)
            self.assertGreater(accuracy(out), 88)

        self.check_run(build, env, command)
        self.check_described(build("tf_config"), env, accuracy)
        self.assertEqual([p.name for p in pathlib.Path("/dev/shm").glob("shoal-*-ps-*")], [])

    def check_run(self, build, env, command):
        """A regression of the program's own: streamed, stopped early, kept in a folder, used from there."""
        numbers = random.Random(5)
        rows = ["area,age,city,price"]
        for _ in range(1000):
            area, age, city = numbers.uniform(30, 150), numbers.uniform(0, 90), numbers.choice(["Bern", "Graz", "Linz"])
            price = 2 * area - age / 2 + 60 * (city == "Bern") + 20 * math.sin(age / 20) + numbers.gauss(0, 5)
            rows.append(f"{area:.1f},{age:.0f},{city},{price:.1f}")
        (self.folder / "train.csv").write_text("\n".join(rows[:701]) + "\n")
        (self.folder / "held.csv").write_text("\n".join(rows[:1] + rows[701:801]) + "\n")
        (self.folder / "test.csv").write_text("\n".join(rows[:1] + rows[801:]) + "\n")
        (self.folder / "new.csv").write_text("area,age,city\n50,10,Bern\n150,10,Bern\n")
        out = self.run_in(build("csv_regression"), "train.csv", "held.csv", "test.csv", "target=price", "houses", env=env)
        epochs = len(re.findall(r"^epoch \d+: loss \S+, validation loss \S+$", out, re.MULTILINE))
        ended = re.search(r"^stopped early after (\d+) epochs: test RMSE (\S+), R2 (\S+)$", out, re.MULTILINE)
        self.assertTrue(ended, out)
        self.assertEqual(int(ended[1]), epochs)
        self.assertLess(epochs, 100)
        self.assertGreater(float(ended[3]), 0.9)
        out = self.run_in(build("predict_run"), "houses", "new.csv", env=env)
        self.assertIn(f"200 test rows: RMSE {ended[2]}, R2 {ended[3]}\n", out)
        small, large = (float(x) for x in re.findall(r"^\S+: (\S+)$", out, re.MULTILINE))
        self.assertLess(small + 100, large)
        self.assertIn("</html>", (self.folder / "houses/report.html").read_text())

    def check_described(self, program, env, accuracy):
        """A server and two workers that join by TF_CONFIG."""
        sockets = [socket.socket() for _ in range(3)]
        for s in sockets:
            s.bind(("127.0.0.1", 0))
        addresses = ["127.0.0.1:%d" % s.getsockname()[1] for s in sockets]
        for s in sockets:
            s.close()
        cluster = {"worker": addresses[:2], "ps": addresses[2:]}
        tasks = []
        for role, index in (("ps", 0), ("worker", 0), ("worker", 1)):
            config = json.dumps({"cluster": cluster, "task": {"type": role, "index": index}})
            tasks.append(subprocess.Popen([program], env={**env, "TF_CONFIG": config}, text=True,
                                          stdout=subprocess.PIPE, stderr=subprocess.PIPE))
        outs = [t.communicate(timeout=support.SECONDS) for t in tasks]
        self.assertEqual([t.returncode for t in tasks], [0, 0, 0], outs)
        first, second = accuracy(outs[1][0]), accuracy(outs[2][0])
        self.assertGreater(first, 88)
        self.assertEqual(first, second)  # sync: all have the same parameters

    def test_prefix_is_known_to_one_file(self):
        """Otherwise `make install PREFIX=...` would compile everything again."""
        options = json.loads(self.run_in("meson", "introspect", BUILD, "--buildoptions"))
        prefix = next(o["value"] for o in options if o["name"] == "prefix")
        self.assertIn(f'"{prefix}/', (BUILD / "src/base/build_config.h").read_text())
        commands = json.loads((BUILD / "compile_commands.json").read_text())
        naming = [c["file"] for c in commands if re.search(rf"-D\S*{re.escape(prefix)}\b", c["command"])]
        self.assertEqual(naming, [])


support.main()
