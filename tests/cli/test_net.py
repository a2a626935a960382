"""What goes over the wire: keys, and peers that speak nonsense to a cluster at work."""
import contextlib
import functools
import json
import mmap
import os
import random
import shutil
import socket
import ssl
import struct
import subprocess
import time

import event_files
import support

HELLO = 0xff01  # kind of a message of the transport's own; the next one is its answer


@functools.cache
def crc_of_zeros(size):
    return event_files.crc32c(bytes(size)) if size <= 1000 else 0


def header(kind, sender, job, size, magic=0x4c414853, version=2):
    """The 64 bytes before a payload of zeros, as docs of src/net/wire.h describe them."""
    h = struct.pack("<IHHHHIQQQQQI", magic, version, 64, kind, 0, sender, job, 0, 0, 1, size, crc_of_zeros(size))
    return h + struct.pack("<I", event_files.crc32c(h))


class Link:
    """A connection that says anything to a server, in few system calls."""

    def __init__(self, address):
        host, port = address.removeprefix("tcp://").split(":")
        self.socket = socket.create_connection((host, int(port)), timeout=20)

    def close(self):
        self.socket.close()

    def hello(self, job):
        self.socket.sendall(header(HELLO, 77, job, 0))
        return struct.unpack_from("<H", self.take(64), 8)[0]

    def take(self, n):
        got = b""
        while len(got) < n:
            piece = self.socket.recv(n - len(got))
            if not piece:
                raise ConnectionError("the server hung up")
            got += piece
        return got

    def await_end(self):
        with contextlib.suppress(ConnectionError):
            while self.socket.recv(4096):
                pass
        self.close()


class Keys(support.Case):
    def test_local_cluster_with_keys(self):
        self.shoal("keygen", "keys")
        flags = ["--epochs", 2, "--batch-size", 20, "--workers", 2, "--transport"]
        self.train("softmax", "shm", *flags, "shm")
        expected = (self.folder / "shm" / "model.safetensors").read_bytes()
        for run, transport, keys in (("plain", "tls", ()), ("tls", "tls", ("--keys", "keys")),
                                     ("curve", "zmq", ("--keys", "keys"))):
            self.train("softmax", run, *flags, transport, *keys)
            self.assertEqual((self.folder / run / "model.safetensors").read_bytes(), expected, run)
        (self.folder / "keys" / "client.pub").unlink()  # the server no longer knows its clients
        for transport in ("tls", "zmq"):
            _, err = self.train("softmax", f"refused-{transport}", *flags, transport, "--keys", "keys", "--deadline", 3,
                                expect=1)
            self.assertIn("does not allow our key", err)

    def test_keys_that_mean_nothing_are_refused(self):
        self.assertIn("--transport tls", self.train("softmax", "r", "--workers", 2, "--keys", "keys", expect=2)[1])
        self.assertIn("--strategy ps", self.train("softmax", "r", "--keys", "keys", expect=2)[1])


class Intruders(support.Case):
    """A hundred thousand bad messages to servers at work: refused, counted, and nothing learned differs."""
    FLAGS = ["--batch-size", 16, "--workers", 2, "--ps", 1, "--no-checkpoints"]
    WRONG, NOT_OURS, OVER_SHM = 1000, 98000, 1000

    def start(self, run, *flags, keys=()):
        self.train("softmax", "quiet", *self.FLAGS, "--transport", "shm", *flags[2:])
        process = subprocess.Popen(
            [support.SHOAL, "train", "softmax", "--data", self.data, "--run-dir", run, *support.FEW,
             *map(str, self.FLAGS), *flags, *keys], cwd=self.folder, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, env=self.environment())
        metrics = self.folder / run / "metrics.jsonl"
        end = time.monotonic() + 30
        while time.monotonic() < end and not (metrics.exists() and metrics.stat().st_size):
            self.assertIsNone(process.poll(), "it ended before it began")
            time.sleep(0.01)
        job = json.loads((self.folder / run / "logs" / "job.json").read_text())
        return process, job["cluster"]["ps"][0], int(job["job"], 16)

    def unharmed(self, process, run, least):
        """The training still ran when the last bad message had been sent, and ends as if there had been none."""
        self.assertIsNone(process.poll(), "the training was over before the attack: nothing is shown")
        out, err = process.communicate(timeout=120)
        self.assertEqual((process.returncode, err), (0, ""), out)
        server, = [t for t in self.summary(run)["tasks"] if t["role"] == "ps"]
        self.assertGreaterEqual(server["refused_messages"], least)
        weights = [(self.folder / name / "model.safetensors").read_bytes() for name in (run, "quiet")]
        self.assertEqual(*weights)

    def test_tcp(self):
        """Bytes of scanners, frames that are wrong, which end their connection, and many that are another's."""
        numbers = random.Random(1)
        process, address, job = self.start("r", "--transport", "tls", "--epochs", "900")
        scans = [b"GET / HTTP/1.0\r\n\r\n" + bytes(100), b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(99),
                 numbers.randbytes(3000), b"", b"\xff"]
        for bytes_of_scanner in scans * 5:
            link = Link(address)
            link.socket.sendall(bytes_of_scanner)
            link.close()
        good = header(5, 77, job, 200) + bytes(200)  # a gradient, almost
        for i in range(self.WRONG):
            link = Link(address)
            if i % 2:
                self.assertEqual(link.hello(job), HELLO + 1)
            bad = bytearray(good)
            bit = numbers.randrange(8 * 64)
            bad[bit // 8] ^= 1 << bit % 8
            link.socket.sendall(bad)
            link.await_end()
        link = Link(address)
        self.assertEqual(link.hello(job), HELLO + 1)
        others = (header(5, 0, job, 200), header(5, 77, job + 1, 200), header(0xff00, 77, job, 200))
        pieces = b"".join(numbers.choice(others) + bytes(200) for _ in range(1000))
        for _ in range(self.NOT_OURS // 1000):
            link.socket.sendall(pieces)
        link.socket.sendall(header(5, 77, job, 1 << 40))  # larger than any message: the connection ends
        link.await_end()
        self.unharmed(process, "r", self.WRONG + self.NOT_OURS)

    def test_wrong_keys(self):
        """Knocking without keys, with TLS but no key, with nonsense, and with a good pair that is not on the list."""
        numbers = random.Random(3)
        self.shoal("keygen", "keys")
        self.shoal("keygen", "others")
        shutil.copy(self.folder / "keys" / "server.pub", self.folder / "others" / "server.pub")
        process, address, job = self.start("r", "--transport", "tls", "--epochs", "900", keys=("--keys", "keys"))
        host, port = address.removeprefix("tcp://").split(":")
        (self.folder / "cluster.json").write_text(json.dumps(
            {"cluster": {"worker": ["127.0.0.1:1", "127.0.0.1:2"], "ps": [f"{host}:{port}"]}}))
        knocks = 0
        for newest in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname, context.verify_mode, context.maximum_version = False, ssl.CERT_NONE, newest
            with self.assertRaises(OSError), socket.create_connection((host, int(port)), timeout=20) as s:
                context.wrap_socket(s)
            knocks += 1
        for words in [header(HELLO, 0, job, 0)] * 100 + [b"\x16\x03\x01\x01\x00" + numbers.randbytes(256)] * 100:
            link = Link(address)
            link.socket.sendall(words)
            link.await_end()
            knocks += 1
        _, err = self.shoal("train", "softmax", "--data", self.data, "--cluster", "cluster.json", "--task", "worker:1",
                            "--keys", "others", "--run-dir", "intruder", expect=1)
        self.assertIn("does not allow our key", err)
        self.assertIn(port, err)
        self.unharmed(process, "r", knocks + 1)
        server, = [t for t in self.summary("r")["tasks"] if t["role"] == "ps"]
        self.assertEqual((server["joins"], server["deaths"]), ([1, 1], [0, 0]))

    def test_shared_memory(self):
        numbers = random.Random(2)
        process, address, job = self.start("r", "--transport", "shm", "--epochs", "1500")
        name = f"\0shoal-{os.geteuid()}{address.removeprefix('shm:')}"

        def connect():
            s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            s.settimeout(20)
            s.connect(name)
            return s

        hello = struct.pack("<QIIQQ", 0x6772656574000002, 2, 77, job, 64)
        for i in range(self.OVER_SHM):
            with connect() as s:
                if i % 50:
                    bad = bytearray(hello)
                    bad[numbers.choice((*range(12), *range(16, 24)))] ^= 1 << numbers.randrange(8)  # all but the sender
                    s.send(bytes(bad) if i % 3 else numbers.randbytes(numbers.randrange(1, 200)))
                    continue
                s.send(hello)
                _, fds, _, _ = socket.recv_fds(s, 4096, 2)
                with mmap.mmap(fds[1], 0) as ring:  # a record that lies, published
                    ring[mmap.PAGESIZE:mmap.PAGESIZE + 64] = numbers.randbytes(64)
                    struct.pack_into("<Q", ring, 0, 64 if i % 100 else 1 << 50)
                    self.assertEqual(s.recv(1), b"")  # thrown out
                for fd in fds:
                    os.close(fd)
        with connect() as s:  # all before it have been looked at when this one is welcomed
            s.send(hello)
            self.assertTrue(s.recv(4096))
        self.unharmed(process, "r", self.OVER_SHM)


support.main()
