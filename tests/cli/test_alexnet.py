"""AlexNet through the command: the model of the experiments, on fake data and on classes it can learn."""
import json

import support

# Weights of each layer and their deviation at first, from the experiments.
LAYERS = [(64 * 363, .01), (192 * 1600, .01), (384 * 1728, .03), (256 * 3456, .03), (256 * 2304, .03),
          (9216 * 4096, .01), (4096 * 4096, .01), (4096 * 1000, .01)]
L2 = 0.0005


class AlexNet(support.Case):
    def losses(self, run):
        lines = map(json.loads, (self.folder / run / "metrics.jsonl").read_text().splitlines())
        return [line["loss"] for line in lines if line["kind"] == "step"]

    def test_fake_data(self):
        run = self.folder / "r"
        out, _ = self.shoal("train", "alexnet", "--steps", 3, "--batch-size", 4, "--threads", 2, "--run-dir", run,
                            "--no-checkpoints", "--log-every", 1)
        self.assertIn("61,100,840 parameters", out)
        self.assertIn("12,288 training rows of fake", out)
        summary = json.loads((run / "summary.json").read_text())
        self.assertEqual(summary["parameters"], 61100840)
        self.assertEqual(summary["examples"], 12)
        settings = json.loads((run / "settings.json").read_text())
        self.assertEqual(settings["classes"], 1000)
        flags = settings["flags"]
        self.assertEqual((flags["optimizer"], flags["l2"], flags["bias-rate"], flags["schedule"]),
                         ("momentum", 0.0005, 2, "staircase"))
        # One image and one class: one step is enough to know it, whatever the other 999. What remains of the loss is
        # the term of the weights, which hardly moved.
        losses = self.losses("r")
        self.assertGreater(losses[0], 7)
        self.assertAlmostEqual(losses[-1], L2 / 2 * sum(n * deviation ** 2 for n, deviation in LAYERS), delta=0.02)
        result = json.loads(self.shoal("eval", run, "--json", "--threads", 2)[0])
        self.assertEqual(result["examples"], 128)
        self.assertEqual(result["top_k"], 1)
        self.assertLess(result["loss"], 6)

    def test_learns(self):
        """Two classes of images, the model's own settings; rows it has not seen tell."""
        for name, rows, seed in (("seen", 288, 1), ("unseen", 32, 2)):
            self.shoal("data", "generate", "images", "--rows", rows, "--seed", seed, "--classes", 2, "--size",
                       "256x256x3", "--as", "npy", "--out", name, "--quiet")
        self.shoal("train", "alexnet", "--data", "seen", "--test-data", "unseen", "--batch-size", 16, "--epochs", 2,
                   "--threads", 2, "--run-dir", "r", "--no-checkpoints", "--log-every", 1)
        losses = self.losses("r")
        self.assertEqual(len(losses), 36)
        rest = L2 / 2 * sum(n * deviation ** 2 for n, deviation in LAYERS[:-1])
        self.assertGreater(min(losses[:4]) - rest, 0.5)
        self.assertLess(max(losses[-4:]) - rest, 0.2)
        self.assertGreaterEqual(self.summary("r")["test_accuracy"], 0.9)
        # Pictures of another size, from files.
        self.shoal("data", "generate", "images", "--rows", 2, "--seed", 3, "--classes", 2, "--size", "200x300x3",
                   "--out", "files", "--quiet")
        files = sorted((self.folder / "files").glob("*/*.png"))
        out, _ = self.shoal("predict", "r", *files, "--json")
        self.assertEqual([row["class"] for row in json.loads(out)], [0, 1])
        _, err = self.shoal("predict", "r", self.folder / "r" / "summary.json", expect=1)
        self.assertIn("summary.json", err)


support.main()
