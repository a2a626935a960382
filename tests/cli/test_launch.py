"""shoal launch: real sshd processes on addresses of the loopback stand for hosts."""
import os
import pathlib
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import unittest

import support

SSHD = shutil.which("sshd", path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
TOOLS = SSHD and shutil.which("ssh") and shutil.which("ssh-keygen")
LATEST = 120  # seconds for what happens at once
HOSTS = {"a": "127.0.0.2", "b": "127.0.0.3", "c": "127.0.0.4"}


def wait_until(what, seconds=LATEST):
    end = time.monotonic() + seconds
    while not what():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def processes(word, of="cmdline"):
    """The command lines (or environments) that have the word, of processes that run, by their numbers."""
    found = {}
    for path in pathlib.Path("/proc").glob(f"[0-9]*/{of}"):
        try:
            line = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if word in line:
            found[int(path.parent.name)] = line
    return found


@unittest.skipUnless(TOOLS, "OpenSSH's client and server are needed (openssh-client, openssh-server)")
class Launch(support.Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.base = pathlib.Path(tempfile.mkdtemp(prefix="shoal-sshd-"))
        cls.servers = {}
        try:
            cls.start_servers()
            done = subprocess.run(["ssh", "-F", cls.config, "-o", "BatchMode=yes", "a", "true"], capture_output=True,
                                  text=True, timeout=LATEST)
            if done.returncode:  # such as an account that is locked
                raise unittest.SkipTest(f"sshd lets nobody in: {done.stderr} {(cls.base / 'log-a').read_text()[-500:]}")
        except (OSError, subprocess.SubprocessError, unittest.SkipTest) as why:
            cls.tearDownClass()
            raise unittest.SkipTest(str(why)) from why

    @classmethod
    def tearDownClass(cls):
        for server in cls.servers.values():
            server.kill()
            server.wait()
        shutil.rmtree(cls.base, ignore_errors=True)
        super().tearDownClass()

    @classmethod
    def keygen(cls, name):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", cls.base / name], check=True,
                       timeout=LATEST)
        return (cls.base / f"{name}.pub").read_text()

    @classmethod
    def start_servers(cls):
        if not os.geteuid():
            pathlib.Path("/run/sshd").mkdir(exist_ok=True)
        cls.base.chmod(0o755)
        (cls.base / "authorized_keys").write_text(cls.keygen("user"))
        cls.keygen("stranger")
        known, cls.ports = [], {}
        for name, address in HOSTS.items():
            with socket.socket() as s:
                s.bind((address, 0))
                cls.ports[name] = s.getsockname()[1]
            known.append(f"host-{name} {cls.keygen('host-' + name)}")
        stranger = (cls.base / "stranger.pub").read_text()
        (cls.base / "known_hosts").write_text("".join(known) + f"host-stranger {stranger}")
        cls.deaf = socket.socket()  # takes connections and says nothing
        cls.deaf.bind(("127.0.0.5", 0))
        cls.deaf.listen(8)
        with socket.socket() as s:
            s.bind(("127.0.0.6", 0))
            refused = s.getsockname()[1]
        common = (f"  User {pwd.getpwuid(os.geteuid()).pw_name}\n  IdentityFile {cls.base}/user\n  IdentitiesOnly yes\n"
                  f"  UserKnownHostsFile {cls.base}/known_hosts\n  GlobalKnownHostsFile /dev/null\n"
                  "  StrictHostKeyChecking yes\n")
        rows = [(n, a, cls.ports[n], f"host-{n}") for n, a in HOSTS.items()]
        rows += [("wrong-key", HOSTS["b"], cls.ports["b"], "host-stranger"),
                 ("refused", "127.0.0.6", refused, "host-a"),
                 ("deaf", "127.0.0.5", cls.deaf.getsockname()[1], "host-a")]
        cls.config = cls.base / "config"
        cls.config.write_text("".join(f"Host {n}\n  HostName {a}\n  Port {p}\n  HostKeyAlias {k}\n{common}"
                                      for n, a, p, k in rows))
        for name in HOSTS:
            cls.start_server(name)

    @classmethod
    def start_server(cls, name, before=()):
        temporary = cls.base / f"tmp-{name}"
        temporary.mkdir(exist_ok=True)
        path = cls.base / f"sshd-{name}"
        path.write_text(f"ListenAddress {HOSTS[name]}:{cls.ports[name]}\nHostKey {cls.base}/host-{name}\n"
                        f"AuthorizedKeysFile {cls.base}/authorized_keys\nStrictModes no\nUsePAM no\nPidFile none\n"
                        "PasswordAuthentication no\nKbdInteractiveAuthentication no\nPermitRootLogin yes\n"
                        f"SetEnv TMPDIR={temporary} SHOAL_DATA={support.ROOT / 'data'}\n")
        with (cls.base / f"log-{name}").open("ab") as log:
            cls.servers[name] = subprocess.Popen([*before, SSHD, "-D", "-e", "-f", path], stdin=subprocess.DEVNULL,
                                                 stdout=log, stderr=log)

        def listens():
            if cls.servers[name].poll() is not None:
                raise unittest.SkipTest("sshd does not start: " + (cls.base / f"log-{name}").read_text()[-500:])
            with socket.socket() as s:
                return s.connect_ex((HOSTS[name], cls.ports[name])) == 0
        if not wait_until(listens):
            raise unittest.SkipTest("sshd does not listen")

    def command(self, hosts, *flags, launch=()):
        return [support.SHOAL, "launch", "--hosts", hosts, "--ssh", f"ssh -F {self.config}", "--connect-seconds", "60",
                *(["--program", support.SHOAL] if "--copy" not in launch and "--program" not in launch else []),
                *map(str, launch), "--", "train", "softmax", "--data", str(self.data), "--threads", "1", "--batch-size", "64",
                *map(str, flags)]

    def launch(self, hosts, *flags, expect=0, launch=()):
        done = subprocess.run(self.command(hosts, *flags, launch=launch), cwd=self.folder, capture_output=True,
                              text=True, timeout=support.SECONDS, env=self.environment())
        self.assertEqual(done.returncode, expect, done.stdout + done.stderr)
        self.nothing_left()
        return done.stdout, done.stderr

    def start(self, hosts, *flags):
        process = subprocess.Popen(self.command(hosts, *flags), cwd=self.folder, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, env=self.environment())
        self.addCleanup(lambda: (process.poll() is None and process.kill(), process.communicate()))
        self.assertTrue(wait_until(lambda: support.has_begun(self.folder / "run") or process.poll() is not None))
        return process

    def nothing_left(self):
        """No task, no agent, no file of the launch on any host."""
        def sessions():
            return list(processes(f"TMPDIR={self.base}", "environ"))
        self.assertTrue(wait_until(lambda: not sessions()), sessions())
        for name in HOSTS:
            self.assertEqual(list((self.base / f"tmp-{name}").glob("shoal*")), [])

    def test_trains_and_copies(self):
        out, err = self.launch("a,b,c:2", "--epochs", 2, "--run-dir", "run", launch=["--copy"])
        self.assertIn("The run is in run", out)
        self.assertIn("a (127.0.0.2): ps/0 worker/0", err)
        self.assertIn("c (127.0.0.4): worker/2 worker/3", err)
        summary = self.summary("run")
        self.assertEqual(summary["status"], "finished")
        self.assertEqual(len(summary["tasks"]), 5)
        # The same bits as on one machine: nothing depends on where tasks run.
        self.shoal("train", "softmax", "--data", self.data, "--threads", "1", "--batch-size", 64, "--epochs", 2, "--workers", 4,
                   "--ps", 1, "--run-dir", "here")
        self.assertEqual((self.folder / "run/model.safetensors").read_bytes(),
                         (self.folder / "here/model.safetensors").read_bytes())

    def test_hosts_that_are_wrong(self):
        _, err = self.launch("a,wrong-key,refused", expect=1)
        self.assertIn("host wrong-key: Host key verification failed", err)
        self.assertRegex(err, "host refused: .*Connection refused")
        self.assertNotIn("host a:", err)
        _, err = self.launch("deaf", expect=1, launch=["--connect-seconds", "2"])
        self.assertRegex(err, "host deaf: .*(timed out|no answer)")
        _, err = self.launch("a,b", expect=1, launch=["--program", "/nowhere/shoal"])
        self.assertRegex(err, "host a: .*/nowhere/shoal.*host b: ")

    def test_another_version(self):
        other = self.folder / "other"
        other.write_text("#!/bin/sh\ncase $SSH_CONNECTION in *127.0.0.3*)\n"
                         "  echo '{\"hello\": {\"version\": \"0.0.1\"}}'; exec cat >/dev/null;; esac\n"
                         f'exec "{support.SHOAL}" "$@"\n')
        other.chmod(0o755)
        _, err = self.launch("a,b,c", expect=1, launch=["--program", other])
        self.assertIn("host b: it has version 0.0.1", err)
        self.assertIn("--copy", err)

    def test_wrong_use(self):
        for hosts, flags, words in (("a,b", ["--workers", 3], "room for 2"), ("a,a", [], "listed twice"),
                                    ("a:x", [], "HOST:SLOTS"), ("a", ["--strategy", "mirrored"], "only ps and allreduce"),
                                    ("a", ["--keys", "k"], "keys of its own")):
            self.assertIn(words, self.launch(hosts, *flags, expect=2)[1])
        _, err = self.launch("a", expect=2, launch=["--ports", "9-1"])
        self.assertIn("FIRST-LAST", err)
        _, err = self.launch("a", expect=1, launch=["--interface", "none0"])
        self.assertIn("host a: --interface: this host has no address in 'none0'", err)
        _, err = self.launch("a", expect=1, launch=["--folder", "/nowhere"])
        self.assertIn("host a: cannot work in /nowhere", err)

    def test_a_host_is_lost(self):
        process = self.start("a,b", "--epochs", 100000, "--run-dir", "run")
        sessions = [pid for pid, line in processes("sshd").items()
                    if pid in support.children(self.servers["b"].pid)]
        self.assertTrue(sessions)
        for pid in sessions:
            for child in [*support.children(pid), pid]:
                if "sshd" in processes("").get(child, ""):
                    os.kill(child, signal.SIGKILL)
        _, err = process.communicate(timeout=LATEST)
        self.assertEqual(process.returncode, 1, err)
        self.assertIn("host b: ", err)
        self.assertNotIn("host a: ", err)
        self.nothing_left()

    def test_a_task_is_killed(self):
        process = self.start("a,b", "--epochs", 100000, "--run-dir", "run")
        victim = [pid for pid, line in processes(str(self.data)).items() if "--task=worker:1" in line]
        os.kill(victim[0], signal.SIGKILL)
        _, err = process.communicate(timeout=LATEST)
        self.assertEqual(process.returncode, 1, err)
        self.assertIn("worker/1 on host b was killed by signal 9", err)
        self.nothing_left()

    def test_ctrl_c_and_resume(self):
        process = self.start("a,b", "--epochs", 100000, "--run-dir", "run")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=LATEST)
        self.assertEqual(process.returncode, 130, out + err)
        self.assertEqual(self.summary("run")["status"], "interrupted")
        self.nothing_left()
        epochs = self.summary("run")["epochs"] + 1
        self.launch("a,b", "--epochs", epochs, "--run-dir", "run", "--resume")
        self.assertEqual(self.summary("run")["status"], "finished")

    def test_the_launcher_is_killed(self):
        process = self.start("a,b", "--epochs", 100000, "--run-dir", "run")
        process.kill()
        process.wait()
        self.nothing_left()

    def restart(self, name, before=()):
        self.servers[name].kill()
        self.servers[name].wait()
        self.start_server(name, before)

    def test_a_full_disk(self):
        space = ["unshare", "-m", "sh", "-c",
                 f"mount -t tmpfs -o size=4k none {self.base}/tmp-c && printf '%8192d' 1 >{self.base}/tmp-c/full; "
                 'exec "$@"', "-"]
        if os.geteuid() or subprocess.run([*space, "true"], capture_output=True).returncode:
            self.skipTest("a small file system needs root and unshare")
        self.addCleanup(self.restart, "c")
        self.restart("c", space)
        _, err = self.launch("a,c", expect=1)
        self.assertRegex(err, "host c: cannot write .*No space left on device")


if __name__ == "__main__":
    support.main()
