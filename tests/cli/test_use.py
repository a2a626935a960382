"""eval and predict on what train left."""
import gzip
import json
import shutil
import struct
import zlib

import support


def png(width, height, rows):
    """A gray PNG of 8 bits."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    raw = b"".join(b"\0" + bytes(row) for row in rows)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress(raw)) + chunk(b"IEND", b""))


class Use(support.Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        trainer = cls("test_eval")
        trainer.folder = cls.shared
        trainer.train("lenet", "run", "--epochs", 6, "--batch-size", 32, "--activation", "relu", "--pool", "max",
                      "--optimizer", "momentum", "--lr", 0.01, "--checkpoint-every", 40)
        cls.run_dir = cls.shared / "run"

    def test_eval(self):
        summary = json.loads((self.run_dir / "summary.json").read_text())
        out, _ = self.shoal("eval", self.run_dir, "--json", "--top-k", 2, *support.FEW)
        result = json.loads(out)
        self.assertAlmostEqual(result["accuracy"], summary["test_accuracy"], places=9)
        self.assertAlmostEqual(result["loss"], summary["test_loss"], places=6)
        self.assertEqual(result["examples"], 128)
        self.assertGreaterEqual(result["top_k"], result["accuracy"])
        out, _ = self.shoal("eval", self.run_dir, "--split", "train")
        self.assertIn("512", out)
        newest = sorted((self.run_dir / "checkpoints").glob("step-*.safetensors"))[-1]
        at_end = json.loads(self.shoal("eval", newest, "--json", *support.FEW)[0])
        self.assertAlmostEqual(at_end["accuracy"], summary["test_accuracy"], places=9)
        generic = json.loads(self.shoal("eval", newest, "--json", "--kernels", "generic")[0])
        self.assertAlmostEqual(generic["loss"], at_end["loss"], places=3)

    def test_eval_of_a_file_outside_a_run(self):
        path = self.folder / "weights.safetensors"
        shutil.copy(self.run_dir / "model.safetensors", path)
        _, err = self.shoal("eval", path, expect=2)
        self.assertIn("--model", err)
        out, _ = self.shoal("eval", path, "--model", "lenet", "--activation", "relu", "--pool", "max", "--data",
                            self.data, "--json", *support.FEW)
        self.assertGreater(json.loads(out)["accuracy"], 0.5)
        _, err = self.shoal("eval", path, "--model", "softmax", "--data", self.data, expect=1)
        self.assertIn("weights.safetensors", err)
        path.write_bytes(path.read_bytes()[:-5])
        _, err = self.shoal("eval", path, "--model", "lenet", "--data", self.data, expect=1)
        self.assertIn("weights.safetensors", err)
        _, err = self.shoal("eval", "not-there", expect=1)
        self.assertIn("not-there", err)

    def test_predict(self):
        data = gzip.decompress((self.data / "t10k-images-idx3-ubyte.gz").read_bytes())[16:]
        labels = gzip.decompress((self.data / "t10k-labels-idx1-ubyte.gz").read_bytes())[8:]
        out, _ = self.shoal("predict", self.run_dir, "--index", "0-9", "--json", *support.FEW)
        rows = json.loads(out)
        self.assertEqual([row["label"] for row in rows], list(labels[:10]))
        for row in rows:
            self.assertAlmostEqual(sum(row["probabilities"]), 1, places=4)
            self.assertEqual(row["probability"], max(row["probabilities"]))
        image = data[:784]
        (self.folder / "digit.raw").write_bytes(image)
        (self.folder / "digit.png").write_bytes(png(28, 28, [image[28 * y:28 * y + 28] for y in range(28)]))
        large = [[image[28 * (y // 3) + x // 3] for x in range(84)] for y in range(84)]
        (self.folder / "large.png").write_bytes(png(84, 84, large))
        out, _ = self.shoal("predict", self.run_dir, "digit.raw", "digit.png", "large.png", "--json", *support.FEW)
        for row in json.loads(out):
            self.assertEqual(row["class"], rows[0]["class"], row["input"])
            self.assertAlmostEqual(row["probability"], rows[0]["probability"], places=4)
        out, _ = self.shoal("predict", self.run_dir, "digit.png")
        self.assertRegex(out, r"^digit\.png: \d  [\d.]+ %\n$")
        self.assertEqual(len(self.shoal("predict", self.run_dir, "--index", "3")[0].splitlines()), 1)

    def test_pictures_that_are_none(self):
        for name, content in (("short.raw", b"\0" * 700), ("broken.png", b"\x89PNG\r\n\x1a\nno"), ("empty", b"")):
            (self.folder / name).write_bytes(content)
            _, err = self.shoal("predict", self.run_dir, name, expect=1)
            self.assertIn(name, err)
        self.shoal("predict", self.run_dir, "not-there.png", expect=1)
        self.shoal("predict", self.run_dir, "--index", "5-3", expect=2)
        _, err = self.shoal("predict", self.run_dir, "--index", "0-5000", expect=2)
        self.assertIn("127", err)


support.main()
