"""Help, wrong usage and exit statuses."""
import re
import shutil
import subprocess

import support


class Usage(support.Case):
    def test_overview(self):
        for words in (["help"], ["--help"]):
            out, _ = self.shoal(*words)
            for name in ("train", "eval", "predict", "version", "softmax", "lenet"):
                self.assertIn(name, out)
        _, err = self.shoal(expect=2)
        self.assertIn("Commands:", err)

    def test_help_of_each_command(self):
        for name in ("train", "eval", "predict", "version", "help"):
            out, _ = self.shoal(name, "--help")
            self.assertIn(f"Usage: shoal {name}", out)
            self.assertEqual(out, self.shoal("help", name)[0])
        out, _ = self.shoal("train", "--help")
        for flag in ("--batch-size N", "--lr X", "--optimizer NAME", "--resume", "sgd", "cosine", "avx512"):
            self.assertIn(flag, out)

    def test_version(self):
        out, _ = self.shoal("version")
        self.assertRegex(out, r"^shoal \d+\.\d+\.\d+\n$")
        self.assertEqual(out, self.shoal("--version")[0])

    def wrong(self, words, *expected):
        out, err = self.shoal(*words, expect=2)
        self.assertEqual(out, "")
        for text in expected:
            self.assertIn(text, err)

    def test_unknown_names_get_a_suggestion(self):
        self.wrong(["trian", "softmax"], "unknown command 'trian'", "did you mean 'train'?")
        self.wrong(["train", "lnet"], "unknown model 'lnet'", "did you mean lenet?")
        self.wrong(["train", "softmax", "--bach-size", "5"], "--bach-size", "did you mean --batch-size?")
        self.wrong(["train", "softmax", "--optimizer", "sdg"], "'sdg'", "did you mean sgd?")
        self.wrong(["train", "softmax", "--schedule", "cosin"], "did you mean cosine?")
        self.wrong(["train", "softmax", "--strategy", "mirored"], "expected single")
        self.wrong(["train", "softmax", "--data", "mnits"], "mnist")
        self.wrong(["eval", "x", "--splt", "test"], "did you mean --split?")
        self.wrong(["help", "trian"], "did you mean 'train'?")

    def test_values(self):
        for flag, value in (("epochs", "0"), ("epochs", "two"), ("epochs", "1.5"), ("batch-size", "-3"),
                            ("batch-size", "99999999999999999999"), ("lr", "nan"), ("lr", "fast"), ("lr", "-1"),
                            ("lr", "0"), ("validation-split", "1.5"), ("threads", "0"), ("keep", "0")):
            self.wrong(["train", "softmax", f"--{flag}", value], f"--{flag}")
            self.wrong(["train", "softmax", f"--{flag}={value}"], f"--{flag}")
        self.wrong(["train", "softmax", "--epochs"], "needs a value")
        self.wrong(["train", "softmax", "--epochs", "--lr", "1"], "needs a value")
        self.wrong(["train", "softmax", "--quiet=yes"], "takes no value")
        self.wrong(["train", "softmax", "-q"], "two dashes")
        self.wrong(["train"], "expected a model")
        self.wrong(["train", "softmax", "lenet"], "expected one model")
        self.wrong(["eval"], "expected one run")
        self.wrong(["predict", "x", "y.png", "--index", "1"], "--index")

    def test_flags_that_contradict(self):
        self.wrong(["train", "softmax", "--momentum", "0.9"], "--optimizer momentum")
        self.wrong(["train", "softmax", "--nesterov"], "--optimizer momentum")
        self.wrong(["train", "softmax", "--decay-factor", "0.5"], "--schedule")
        self.wrong(["train", "softmax", "--schedule", "piecewise"], "--pieces")
        self.wrong(["train", "softmax", "--schedule", "piecewise", "--pieces", "5:0.1,3:0.2"], "--pieces")
        self.wrong(["train", "softmax", "--patience", "2"], "--validation-split")
        self.wrong(["train", "softmax", "--resume"], "--run-dir")
        self.assertFalse((self.folder / "runs").exists(), "wrong usage must leave nothing behind")

    def test_completions_of_other_shells(self):
        """Each command and each flag that --help shows is in them; the shells themselves read them, where they are."""
        for shell in ("zsh", "fish"):
            script, _ = self.shoal("help", f"--completion={shell}")
            for name in re.findall(r"^  --([\w-]+)", self.shoal("train", "--help")[0], re.MULTILINE):
                self.assertIn(name, script)
            for word in ("keygen", "launch", "inspect"):
                self.assertIn(word, script)
            if shutil.which(shell):
                path = self.folder / f"completion.{shell}"
                path.write_text(script)
                done = subprocess.run([shell, "-n", path], capture_output=True, text=True)
                self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_completion_and_man_page(self):
        script, _ = self.shoal("help", "--completion")
        path = self.folder / "completion"
        path.write_text(script)

        def complete(*words):
            quoted = " ".join(f"'{w}'" for w in words)
            done = subprocess.run(["bash", "-c", f"source {path}; COMP_WORDS=({quoted}); "
                                   f"COMP_CWORD={len(words) - 1}; _shoal; echo ${{COMPREPLY[@]}}"],
                                  capture_output=True, text=True, check=True)
            return done.stdout.split()
        self.assertEqual(complete("shoal", "tra"), ["train", "trace"])
        self.assertIn("lenet", complete("shoal", "train", ""))
        self.assertEqual(complete("shoal", "train", "lenet", "--bat"), ["--batch-size"])
        self.assertIn("adam", complete("shoal", "train", "lenet", "--optimizer", ""))
        page, _ = self.shoal("help", "--man")
        for text in (".TH SHOAL 1", "shoal\\-data\\-list (1)", ".SH EXIT STATUS"):
            self.assertIn(text, page)
        self.assertIn("\\-\\-batch\\-size", self.shoal("help", "--man", "train")[0])


support.main()
