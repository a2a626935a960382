"""A real Slurm of one machine: munge, a controller and a node, started for the test and ended with it."""
import os
import pathlib
import shutil
import socket
import subprocess
import time
import unittest

import support

NEEDED = ("munged", "slurmctld", "slurmd", "srun", "mpirun")
SBIN = os.environ["PATH"] + ":/usr/sbin:/sbin"


def missing():
    """Why it cannot be run here, or None."""
    for name in NEEDED:
        if not shutil.which(name, path=SBIN):
            return f"no {name}"
    return None if os.geteuid() == 0 else "a node of Slurm has to be started by root"


def free_ports(n):
    sockets = [socket.socket() for _ in range(n)]
    for s in sockets:
        s.bind(("127.0.0.1", 0))
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


@unittest.skipIf(missing(), missing())
class Slurm(support.Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.daemons = []
        home = cls.home = cls.shared / "slurm"
        for name in ("", "munge", "state", "spool"):
            (home / name).mkdir(mode=0o700)
        (home / "munge" / "key").write_bytes(os.urandom(128))
        (home / "munge" / "key").chmod(0o600)
        controller, node = free_ports(2)
        name = socket.gethostname().split(".")[0]
        (home / "slurm.conf").write_text(f"""
ClusterName=test
SlurmctldHost={name}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={home}/munge/socket
CredType=cred/munge
SlurmctldPort={controller}
SlurmdPort={node}
StateSaveLocation={home}/state
SlurmdSpoolDir={home}/spool
SlurmctldPidFile={home}/slurmctld.pid
SlurmdPidFile={home}/slurmd.pid
SlurmctldLogFile={home}/slurmctld.log
SlurmdLogFile={home}/slurmd.log
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/builtin
MpiDefault=pmix
SlurmdParameters=config_overrides
ReturnToService=2
NodeName={name} NodeAddr=127.0.0.1 CPUs=8 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES State=UP OverSubscribe=FORCE:8
""")
        (home / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
        cls.surroundings = {"SLURM_CONF": str(home / "slurm.conf"), "PATH": SBIN, "PMIX_MCA_gds": "hash",
                            "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        cls.start("munged", "--foreground", "--force", "--key-file", home / "munge" / "key", "--socket",
                  home / "munge" / "socket", "--pid-file", home / "munge" / "pid", "--log-file", home / "munge" / "log",
                  "--seed-file", home / "munge" / "seed")
        cls.wait(lambda: (home / "munge" / "socket").exists(), "munged")
        cls.start("slurmctld", "-D", "-f", home / "slurm.conf")
        cls.start("slurmd", "-D", "-f", home / "slurm.conf", "-N", name)
        cls.wait(lambda: "idle" in cls.ask("sinfo", "-h", "-o", "%T"), "the node")

    @classmethod
    def ask(cls, *words):
        return subprocess.run(words, capture_output=True, text=True, timeout=30,
                              env={**os.environ, **cls.surroundings}).stdout

    @classmethod
    def start(cls, *words):
        with open(cls.home / f"{words[0]}.out", "w") as log:
            cls.daemons.append(subprocess.Popen([shutil.which(words[0], path=SBIN), *map(str, words[1:])], stdout=log,
                                                stderr=log, env={**os.environ, **cls.surroundings}))

    @classmethod
    def wait(cls, is_ready, what):
        end = time.monotonic() + 15
        while not is_ready():
            logs = "\n".join(p.read_text()[-2000:] for p in cls.home.glob("*.out"))
            if time.monotonic() > end or any(d.poll() is not None for d in cls.daemons):
                cls.tearDownClass()
                raise unittest.SkipTest(f"{what} does not start here:\n{logs}")
            time.sleep(0.1)

    @classmethod
    def tearDownClass(cls):
        for daemon in reversed(cls.daemons):
            daemon.terminate()
            try:
                daemon.wait(10)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        cls.daemons = []
        super().tearDownClass()

    def srun(self, tasks, *flags):
        done = subprocess.run(["srun", "-n", str(tasks), "--overcommit", "--kill-on-bad-exit=1", support.SHOAL, "train",
                               "lenet", "--data", self.data, "--threads", "1", *map(str, flags)], cwd=self.folder,
                              capture_output=True, text=True, timeout=120,
                              env=self.environment(**self.surroundings))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    FLAGS = ["--steps", 10, "--deterministic"]

    def assert_as_one_process(self, run):
        self.train("lenet", "single", "--batch-size", 40, *self.FLAGS)
        weights = [(self.folder / name / "model.safetensors").read_bytes() for name in ("single", run)]
        self.assertEqual(*weights)

    def test_allreduce(self):
        out = self.srun(2, "--strategy", "allreduce", "--global-batch", 40, "--run-dir", "r", *self.FLAGS)
        self.assertIn("worker/1", out)
        self.assert_as_one_process("r")

    def test_parameter_servers(self):
        out = self.srun(3, "--strategy", "ps", "--ps", 1, "--global-batch", 40, "--run-dir", "p", *self.FLAGS)
        self.assert_as_one_process("p")
        self.assertIn("worker/1", out)
        s = self.summary("p")
        self.assertEqual((s["ps"], s["workers"]), (1, 2))
        self.assertTrue(all(n == 10 for n in s["gradients"]))


support.main()
