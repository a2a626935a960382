"""Twenty steps of LeNet under valgrind: no leak, no error."""
import shutil
import subprocess
import sys

import support


class Valgrind(support.Case):
    def test_lenet(self):
        done = subprocess.run(["valgrind", "--error-exitcode=99", "--leak-check=full",
                               "--errors-for-leak-kinds=definite,indirect,possible", "-q", support.SHOAL, "train",
                               "lenet", "--data", self.data, "--steps", "20", "--batch-size", "16", "--kernels",
                               "generic", "--threads", "1", "--run-dir", "r"],
                              cwd=self.folder, capture_output=True, text=True, timeout=1000, env=self.environment())
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(self.summary("r")["steps"], 20)


if not shutil.which("valgrind"):
    print("valgrind is not installed")
    sys.exit(77)
support.main()
