"""What the command prints: fits 80 columns, counts well, and names itself as it was called."""
import fcntl
import os
import pty
import re
import struct
import subprocess
import termios

import support

WIDTH = 80


class Terminal(support.Case):
    def narrow(self, *arguments, expect=0):
        """Both outputs of the command, in lines no longer than WIDTH, unless a line is one word."""
        out, err = self.shoal(*arguments, expect=expect, env={"COLUMNS": str(WIDTH)})
        for line in (out + err).splitlines():
            self.assertTrue(len(line) <= WIDTH or " " not in line.strip(), line)
        return out, err

    def on_screen(self, *arguments):
        """What a terminal of WIDTH columns gets."""
        leader, follower = pty.openpty()
        fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 40, WIDTH, 0, 0))
        process = subprocess.Popen([support.SHOAL, *map(str, arguments)], cwd=self.folder, stdin=follower, stdout=follower,
                                   stderr=follower, env=self.environment(TERM="xterm", NO_COLOR="1"))
        os.close(follower)
        got = b""
        while True:
            try:
                piece = os.read(leader, 65536)
            except OSError:  # the other end is closed
                break
            if not piece:
                break
            got += piece
        os.close(leader)
        self.assertEqual(process.wait(support.SECONDS), 0, got)
        return got.decode()

    def test_training_on_a_terminal(self):
        shown = self.on_screen("train", "softmax", "--data", self.data, "--run-dir", "a-run-with-quite-a-long-name", "--epochs", 3,
                               "--validation-split", 0.2, "--workers", 2)
        lines = [re.sub(r"\033\[[\d;]*[A-Za-z]", "", part) for line in shown.split("\r\n") for part in line.split("\r")]
        self.assertGreater(len(lines), 20)
        for line in lines:
            self.assertTrue(len(line) <= WIDTH or " " not in line.strip(), line)
        self.assertIn("2 workers with batch 200", " ".join(lines))
        self.assertIn("1 parameter server,", " ".join(lines))
        # The tasks are one row each, not a list each; what does not fit follows in a second table.
        self.assertEqual(sum(line.startswith("worker/1 ") for line in lines), 2)

    def test_a_sweep_is_one_table(self):
        out, _ = self.narrow("sweep", "softmax", "--data", self.data, "--run-dir", "grid", "--epochs", 1, "--threads", 1,
                             "--batch-size", "16,32,64", "--lr", "0.1,0.5", "--optimizer", "sgd,momentum")
        lines = out.splitlines()
        head = [i for i, line in enumerate(lines) if line.lstrip().startswith("batch-size")]
        self.assertEqual(len(head), 1)
        rows = lines[head[0] + 1:head[0] + 13]
        self.assertTrue(all(re.match(r" +\d\d +0\.\d  (sgd|momentum) .* %$", row) for row in rows), rows)
        self.assertRegex(out, r"Not shown because the terminal is too narrow: .*updates")
        self.assertIn("updates", (self.folder / "grid" / "results.csv").read_text().splitlines()[0])
        self.assertIn("updates", (self.folder / "grid" / "results.md").read_text().splitlines()[0])

    def test_help_and_errors(self):
        out, _ = self.narrow("help")
        commands = re.findall(r"^  ([a-z]+(?: [a-z]+)?)  ", out.split("Models:")[0], re.M)
        self.assertIn("data inspect", commands)
        for command in commands:
            self.narrow("help", *command.split())
        self.narrow("train", "softmax", "--optimizer", "sgdd", expect=2)
        self.narrow("sweep", expect=2)
        self.narrow("reproduce", "--list")
        self.narrow("data", "list")

    def test_commands_that_wrap_can_be_copied(self):
        name = "runs/" + "a-long-name-" * 4
        out, _ = self.narrow("train", "softmax", "--data", self.data, "--run-dir", name, "--epochs", 1, "--threads", 1)
        command = out[out.index("To train it longer:"):].partition("\n")[2]
        self.assertIn("\\\n", command)
        subprocess.run(["sh", "-ec", command], cwd=self.folder, env=self.environment(), check=True, capture_output=True)
        self.assertEqual(self.summary(name)["epochs"], 2)

    def test_files_are_not_wrapped(self):
        with open(self.folder / "log", "w") as log:
            subprocess.run([support.SHOAL, "train", "softmax", "--data", self.data, "--run-dir", "run", "--epochs", "1",
                            "--validation-split", "0.1"], cwd=self.folder, env=self.environment(COLUMNS="40"), stdout=log, check=True)
        self.assertRegex((self.folder / "log").read_text(), r"(?m)^epoch 1/1 .* examples/s")

    def test_counts(self):
        out, _ = self.train("softmax", "one", "--epochs", 1, "--batch-size", 16)
        self.assertIn("7,850 parameters, 512 training rows", out)
        self.assertIn("batch 16, 1 thread\n", out)
        out, _ = self.shoal("train", "softmax", "--data", self.data, "--run-dir", "two", "--epochs", 1, "--workers", 1, "--ps", 1)
        self.assertRegex(out, r"1 worker with batch 200 and \d+ threads?, 1 parameter server, sync")
        out, _ = self.shoal("sweep", "softmax", "--data", self.data, "--run-dir", "grid", "--epochs", 1, "--threads", 1)
        self.assertIn("1 run of softmax in grid", out)
        out, _ = self.shoal("train", "softmax", "--data", self.data, "--run-dir", "three", "--epochs", 1001, "--threads", 1,
                            "--no-checkpoints")
        self.assertIn("epoch 1,001/1,001 ", out)

    def test_hints_name_the_command_as_it_was_called(self):
        (self.folder / "bin").mkdir()
        (self.folder / "bin" / "my-shoal").symlink_to(support.SHOAL)

        def call(*words):
            done = subprocess.run(["bin/my-shoal", *words], cwd=self.folder, env=self.environment(), capture_output=True, text=True)
            return done.stdout + done.stderr
        out = call("train", "softmax", "--data", str(self.data), "--run-dir", "run", "--epochs", "1", "--threads", "1")
        for words in ("eval run", "report run", "train softmax --resume --run-dir run --epochs 2"):
            self.assertIn(f"  bin/my-shoal {words}\n", out)
        self.assertIn("'bin/my-shoal train --help'", call("train"))
        self.assertIn("'bin/my-shoal report --help' lists", call("report"))
        self.assertIn("'bin/my-shoal help'", call("no-such-command"))


if __name__ == "__main__":
    support.main()
