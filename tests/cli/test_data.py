"""shoal data, and training on formats other than MNIST's."""
import hashlib
import json
import random
import signal
import struct
import subprocess
import time

import support


class Data(support.Case):
    def inspect(self, *arguments, expect=0):
        out, _ = self.shoal("data", "inspect", *arguments, "--json", expect=expect)
        return json.loads(out)

    def clicks(self, name, *flags):
        self.shoal("data", "generate", "criteo", "--rows", 1003, "--files", 3, "--features", 5000, "--out", name,
                   *flags)
        return name

    def pictures(self, name="shapes", rows=240):
        self.shoal("data", "generate", "images", "--rows", rows, "--size", "28x28x1", "--classes", 4, "--noise", 4,
                   "--out", f"{name}/train")
        self.shoal("data", "generate", "images", "--rows", 80, "--size", "28x28x1", "--classes", 4, "--noise", 4,
                   "--seed", 2, "--out", f"{name}/test")
        return name

    def test_list(self):
        out, _ = self.shoal("data", "list")
        for name in ("mnist", "tfrecord", "libsvm", "criteo", "csv", "npy", "image-folder", "cifar10"):
            self.assertIn(name, out)
        parsed = json.loads(self.shoal("data", "list", "--json")[0])
        self.assertIn("tfrecord", [f["name"] for f in parsed["formats"]])
        self.assertTrue([d["path"] for d in parsed["data_sets"] if d["name"] == "mnist"][0])

    def test_mnist(self):
        found = self.inspect("mnist")
        self.assertEqual((found["format"], found["rows"], found["shape"], found["classes"]),
                         ("idx", 60000, [28, 28, 1], 10))
        self.assertEqual(list(found["labels"].values()), [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949])

    def test_generated_clicks(self):
        seen = []
        for form, pattern in (("tfrecord", "tfrecords*"), ("libsvm", "*.libsvm"), ("tsv", "*.tsv")):
            folder = self.clicks(form, "--as", form)
            found = self.inspect(f"{folder}/{pattern}", "--features", 5000)
            self.assertEqual((found["rows"], found["files"], found["kind"], found["classes"]), (1003, 3, "sparse", 2))
            self.assertGreaterEqual(found["nonzeros_a_row"]["min"], 24)
            self.assertLessEqual(found["nonzeros_a_row"]["max"], 39)
            self.assertGreaterEqual(found["index"]["min"], 1)
            self.assertLess(found["index"]["max"], 5000)
            self.assertLess(abs(found["labels"]["1"] / 1003 - 0.26), 0.06)
            self.assertEqual(len(found["first_rows"]), 3)
            seen.append(found["labels"])
            whole = self.inspect(folder, "--features", 5000)  # the folder, without truth.json
            self.assertEqual((whole["rows"], whole["files"], whole["labels"]), (1003, 3, found["labels"]))
        self.assertEqual(seen[0], seen[1])
        self.assertEqual(seen[0], seen[2])
        again = self.clicks("again")
        for file in sorted((self.folder / "tfrecord").glob("tfrecords*")):
            self.assertEqual(file.read_bytes(), (self.folder / again / file.name).read_bytes())

    def test_convert_there_and_back(self):
        folder = self.clicks("clicks")
        source = f"{folder}/tfrecords*"
        self.shoal("data", "convert", source, "a.libsvm")
        self.shoal("data", "convert", "a.libsvm", "b.tfrecord")
        self.shoal("data", "convert", "b.tfrecord", "c.svm", "--to", "libsvm")
        self.assertEqual((self.folder / "a.libsvm").read_bytes(), (self.folder / "c.svm").read_bytes())
        whole = b"".join(f.read_bytes() for f in sorted((self.folder / folder).glob("tfrecords*")))
        first, second = self.inspect(source, "--rows", 1000), self.inspect("b.tfrecord", "--rows", 1000)
        for key in ("rows", "labels", "nonzeros", "nonzeros_a_row", "index", "values", "first_rows"):
            self.assertEqual(first[key], second[key], key)
        self.assertEqual(len(whole), (self.folder / "b.tfrecord").stat().st_size)
        # Sparse to columns and back to pairs: zeros that were written out are gone, the rest stays.
        self.shoal("data", "convert", "a.libsvm", "d.npy")
        self.shoal("data", "convert", "d.npy", "e.csv")
        self.shoal("data", "convert", "e.csv", "f.libsvm")
        dense, pairs = self.inspect("e.csv"), self.inspect("f.libsvm")
        self.assertEqual(dense["rows"], 1003)
        self.assertEqual(dense["shape"], [first["index"]["max"]])
        self.assertEqual(pairs["labels"], first["labels"])
        self.assertEqual(pairs["index"]["max"], first["index"]["max"])
        self.assertEqual(sorted(p.name for p in self.folder.glob("*.part")), [])

    def test_nothing_is_replaced(self):
        self.clicks("clicks")
        (self.folder / "there.libsvm").write_text("keep me")
        _, err = self.shoal("data", "convert", "clicks/tfrecords*", "there.libsvm", expect=2)
        self.assertIn("--force", err)
        self.assertEqual((self.folder / "there.libsvm").read_text(), "keep me")
        self.shoal("data", "convert", "clicks/tfrecords*", "there.libsvm", "--force")
        _, err = self.shoal("data", "generate", "criteo", "--out", "clicks", expect=2)
        self.assertIn("is not empty", err)

    def test_interrupted_conversion_leaves_nothing(self):
        self.shoal("data", "generate", "criteo", "--rows", 200000, "--files", 1, "--out", "many")
        process = subprocess.Popen([support.SHOAL, "data", "convert", "many/tfrecords*", "out.libsvm"], cwd=self.folder,
                                   env=self.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        end = time.monotonic() + 60
        while not (self.folder / "out.libsvm.part").exists() and process.poll() is None:
            self.assertLess(time.monotonic(), end)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130, "it was done before the signal came: give it more rows")
        self.assertEqual(list(self.folder.glob("out.*")), [])

    def test_wrong_use(self):
        for words, expected in ((["data"], "Usage: shoal data COMMAND"),
                                (["data", "inspct"], "did you mean 'inspect'?"),
                                (["data", "inspect"], "expected one file"),
                                (["data", "inspect", "mnist", "--format", "cvs"], "did you mean 'csv'?"),
                                (["data", "convert", "a"], "expected FROM and TO"),
                                (["data", "convert", "mnist", "a.xyz"], "unknown file extension"),
                                (["data", "convert", "mnist", "a.csv", "--to", "xls"], "cannot be written"),
                                (["data", "generate"], "criteo or images"),
                                (["data", "generate", "criteo"], "--out"),
                                (["data", "generate", "images", "--out", "x", "--size", "9"], "28x28x1")):
            _, err = self.shoal(*words, expect=2)
            self.assertIn(expected, err, words)
        out, _ = self.shoal("data", "--help")
        self.assertIn("data convert", out)
        self.assertIn("--on-bad-row", self.shoal("help", "data", "inspect")[0])
        self.assertIn("data generate", self.shoal("help", "data")[0])
        script, _ = self.shoal("help", "--completion")
        (self.folder / "completion").write_text(script)

        def complete(*words):
            quoted = " ".join(f"'{w}'" for w in words)
            done = subprocess.run(["bash", "-c", f"source {self.folder}/completion; COMP_WORDS=({quoted}); "
                                   f"COMP_CWORD={len(words) - 1}; _shoal; echo ${{COMPREPLY[@]}}"],
                                  capture_output=True, text=True, check=True)
            return done.stdout.split()
        self.assertEqual(complete("shoal", "da"), ["dash", "data"])
        self.assertEqual(complete("shoal", "data", "in"), ["inspect"])
        self.assertEqual(complete("shoal", "data", "inspect", "--tr"), ["--transform"])
        self.assertEqual(complete("shoal", "data", "generate", "cr"), ["criteo"])

    def test_bad_input(self):
        self.clicks("clicks")
        _, err = self.shoal("data", "inspect", "none.csv", expect=1)
        self.assertIn("none.csv: cannot open", err)
        _, err = self.shoal("data", "inspect", "*.nothing", expect=1)
        self.assertIn("no file matches", err)
        (self.folder / "empty.csv").write_bytes(b"")
        _, err = self.shoal("data", "inspect", "empty.csv", expect=1)
        self.assertIn("empty", err)
        file = sorted((self.folder / "clicks").glob("tfrecords*"))[0]
        bytes_ = bytearray(file.read_bytes())
        length = struct.unpack("<Q", bytes_[:8])[0]
        bytes_[16 + length + 20] ^= 1  # in the data of record 1
        file.write_bytes(bytes_)
        _, err = self.shoal("data", "inspect", "clicks/tfrecords*", expect=1)
        self.assertIn(f"{file.name}: record 1 at byte", err)
        found = self.inspect("clicks/tfrecords*", "--on-bad-row", "skip")
        self.assertEqual((found["rows"], found["bad_rows"]), (1002, 1))
        out, _ = self.shoal("data", "convert", "clicks/tfrecords*", "x.libsvm", "--on-bad-row", "skip")
        self.assertIn("1 bad row skipped", out)
        file.write_bytes(bytes_[:len(bytes_) - 5])
        _, err = self.shoal("data", "inspect", str(file), "--on-bad-row", "skip", expect=1)
        self.assertIn(file.name, err)
        rows = ["label,x"] + [f"{i % 2},{'?' if i % 20 == 7 else i}" for i in range(2000)]
        (self.folder / "bad.csv").write_text("\n".join(rows) + "\n")
        _, err = self.shoal("data", "inspect", "bad.csv", "--on-bad-row", "skip", expect=1)
        self.assertIn("more than 1 %", err)
        # An index beyond the model, a label outside the classes.
        (self.folder / "x.svm").write_text("+1 3:1 90:1\n-1 2:1\n")
        _, err = self.shoal("data", "inspect", "x.svm", "--features", 50, expect=1)
        self.assertIn("x.svm: line 1 at byte 7", err)
        (self.folder / "y.csv").write_text("label,x\n1,2\n7,3\n")
        _, err = self.shoal("data", "inspect", "y.csv", "--classes", 3, expect=1)
        self.assertIn("y.csv: record 1", err)

    # ---- training

    def fit(self, run, *flags, **options):
        self.shoal("train", "lenet", "--run-dir", run, *support.FEW, *flags, **options)
        return self.summary(run)

    def test_the_input_follows_the_data(self):
        """Rows of four numbers, three classes: the shape is noted, and all that comes later finds it there."""
        numbers = random.Random(3)
        rows = [(k, [k + numbers.gauss(0, 0.2) for _ in range(4)]) for k in (0, 1, 2) for _ in range(40)]
        numbers.shuffle(rows)
        for name, part in (("iris.csv", rows[:90]), ("iris-test.csv", rows[90:])):
            (self.folder / name).write_text("".join(f"{k},{','.join(f'{x:.4f}' for x in v)}\n" for k, v in part))
        flags = ["--data", "iris.csv", "--test-data", "iris-test.csv", "--columns", "label=0", "--batch-size", 10,
                 "--epochs", 20, *support.FEW]
        self.shoal("train", "softmax", "--run-dir", "iris", *flags)
        got = self.summary("iris")
        self.assertEqual(got["parameters"], 4 * 3 + 3)
        self.assertGreater(got["test_accuracy"], 0.9)
        out, _ = self.shoal("eval", "iris", "--json")
        self.assertAlmostEqual(json.loads(out)["accuracy"], got["test_accuracy"])
        self.assertEqual(len(json.loads(self.shoal("predict", "iris", "--index", "0-9", "--json")[0])), 10)
        lines = self.shoal("predict", "iris", "iris.csv", "iris-test.csv")[0].splitlines()
        self.assertEqual((len(lines), lines[90].split()[0]), (120, "iris-test.csv:0:"))
        (self.folder / "dots.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(60))
        self.assertIn("rows of 4 numbers", self.shoal("predict", "iris", "dots.png", expect=2)[1])
        self.shoal("train", "softmax", "--run-dir", "iris", "--resume", "--epochs", 21)
        self.assertEqual(self.summary("iris")["epochs"], 21)
        self.shoal("train", "softmax", "--run-dir", "shared", *flags, "--workers", 2, "--ps", 2)
        self.assertEqual(self.summary("shared")["parameters"], 15)
        # Images of any size and any channels that the layers can take; smaller ones are made larger.
        for size, parameters in (("20x24x3", 6 * 76 + 16 * 151 + 16 * 3 * 4 * 120 + 120 + 120 * 84 + 84 + 84 * 4 + 4),
                                 ("8x8x1", 6 * 26 + 16 * 151 + 400 * 120 + 120 + 120 * 84 + 84 + 84 * 4 + 4)):
            self.shoal("data", "generate", "images", "--rows", 80, "--size", size, "--classes", 4, "--as", "npy", "--out",
                       f"i{size}")
            got = self.fit(size, "--data", f"i{size}", "--epochs", 1)
            self.assertEqual(got["parameters"], parameters)
            self.shoal("eval", size, "--split", "train")
        self.assertIn("--input", self.shoal("train", "lenet", "--input", "28xx1", expect=2)[1])

    def weights(self, run):
        """The numbers, without the header, which names the classes of one and not of the other."""
        raw = (self.folder / run / "model.safetensors").read_bytes()
        return raw[8 + struct.unpack("<Q", raw[:8])[0]:]

    def test_trains_on_pictures(self):
        folder = self.pictures()
        got = self.fit("folder", "--data", folder, "--epochs", 12, "--batch-size", 16)
        self.assertGreater(got["test_accuracy"], 0.8)
        self.assertEqual(got["examples"], 12 * 240)
        out, _ = self.shoal("eval", "folder", "--json")
        self.assertAlmostEqual(json.loads(out)["accuracy"], got["test_accuracy"])
        self.shoal("predict", "folder", "--index", "0-3")
        # The same images as npy give the same rows, and so the same weights.
        for part in ("train", "test"):
            self.shoal("data", "convert", f"{folder}/{part}", f"{part}.npy", "--transform", "resize=28x28,gray")
        self.fit("npy", "--data", "train.npy", "--test-data", "test.npy", "--epochs", 12, "--batch-size", 16)
        self.assertEqual(self.weights("folder"), self.weights("npy"))
        # Too large for the memory allowed: streamed.
        self.shoal("data", "generate", "images", "--rows", 2000, "--size", "28x28x1", "--classes", 4, "--as", "npy",
                   "--out", "large")
        out, _ = self.shoal("train", "lenet", "--data", "large", "--test-data", "test.npy", "--epochs", 1,
                            "--classes", 4, "--memory-limit", 1, "--run-dir", "limit")
        self.assertIn("streamed rows", out)
        self.assertEqual(self.summary("limit")["examples"], 2000)
        _, err = self.shoal("train", "lenet", "--data", self.clicks("clicks") + "/tfrecords*", "--run-dir", "sparse",
                            expect=1)
        self.assertIn("sparse", err)

    def test_streams_under_every_strategy(self):
        folder = self.pictures(rows=400)
        flags = ["--data", folder, "--stream", "--shuffle-rows", 0, "--epochs", 2]
        alone = self.fit("alone", *flags, "--batch-size", 16, "--deterministic")
        mirrored = self.fit("mirrored", *flags, "--batch-size", 8, "--workers", 2, "--strategy", "mirrored",
                            "--deterministic")
        self.assertEqual((alone["examples"], alone["updates"]), (800, 50))
        self.assertEqual(self.hash("alone"), self.hash("mirrored"))
        self.assertEqual(mirrored["final_loss"], alone["final_loss"])
        for mode in ("sync", "async"):
            run = self.fit(mode, *flags, "--batch-size", 8, "--workers", 2, "--ps", 1, "--mode", mode)
            self.assertEqual(run["examples"], 800)  # each row once an epoch
        _, err = self.shoal("train", "lenet", *flags, "--workers", 2, "--ps", 1, "--deterministic", "--run-dir", "no",
                            expect=2)
        self.assertIn("leave --stream out", err)

    def hash(self, run):
        return hashlib.sha256((self.folder / run / "model.safetensors").read_bytes()).hexdigest()

    def test_stream_killed_and_resumed(self):
        folder = self.pictures(rows=400)
        flags = ["--data", folder, "--stream", "--shuffle-rows", 100, "--epochs", 6, "--batch-size", 8,
                 "--checkpoint-every", 5]
        whole = self.fit("whole", *flags)
        self.assertEqual((whole["steps"], whole["examples"]), (300, 2400))
        kills = 0
        for delay in (0.1, 0.05, 0.2):
            process = subprocess.Popen([support.SHOAL, "train", "lenet", "--run-dir", "killed", "--resume",
                                        *support.FEW, *map(str, flags)], cwd=self.folder, env=self.environment(),
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            end = time.monotonic() + 60
            while not list(self.folder.glob("killed/checkpoints/step-*")) and process.poll() is None:
                self.assertLess(time.monotonic(), end)
                time.sleep(0.002)
            time.sleep(delay)
            process.kill()
            process.communicate()
            kills += process.returncode == -signal.SIGKILL
        self.assertGreater(kills, 0)
        killed = self.fit("killed", *flags, "--resume")
        self.assertEqual((self.folder / "whole/model.safetensors").read_bytes(),
                         (self.folder / "killed/model.safetensors").read_bytes())
        for key in ("steps", "examples", "epochs", "final_loss", "test_accuracy"):
            self.assertEqual(whole[key], killed[key], key)
        _, err = self.shoal("train", "lenet", "--run-dir", "killed", "--resume", "--shuffle-rows", 50, "--epochs", 7,
                            expect=2)
        self.assertIn("shuffle-rows=100 then, shuffle-rows=50 now", err)

    def test_waiting_for_data(self):
        got = self.fit("mnist", "--epochs", 1)
        self.assertLess(got["input_wait_seconds"], 0.01 * got["seconds"])


support.main()
