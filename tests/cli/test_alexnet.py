"""AlexNet through the command: the model of the experiments, on fake data."""
import json

import support


class AlexNet(support.Case):
    def test_fake_data(self):
        run = self.folder / "r"
        out, _ = self.shoal("train", "alexnet", "--steps", 3, "--batch-size", 4, "--threads", 2, "--run-dir", run,
                            "--no-checkpoints")
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
        # One image and one class: three steps are enough to know it, whatever the other 999.
        result = json.loads(self.shoal("eval", run, "--json", "--threads", 2)[0])
        self.assertEqual(result["examples"], 128)
        self.assertEqual(result["top_k"], 1)
        self.assertLess(result["loss"], 6)


support.main()
