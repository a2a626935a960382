"""What goes over the wire: keys, and peers that speak nonsense to a cluster at work."""
import contextlib
import json
import mmap
import os
import random
import shutil
import socket
import struct
import subprocess
import time
import zlib

import support

HELLO, REFUSED = 0xff01, 0xff03  # kinds of the transport's own messages


def header(kind, sender, job, size, magic=0x4c414853, version=1):
    """The 64 bytes before a payload, as docs of src/net/wire.h describe them."""
    h = struct.pack("<IHHHHIQQQQQI", magic, version, 64, kind, 0, sender, job, 0, 0, 1, size, 0)
    return h + struct.pack("<I", zlib.crc32(h))


class Zmtp:
    """Enough of ZeroMQ's own protocol to say anything to a server, in few system calls."""

    def __init__(self, address):
        host, port = address.removeprefix("tcp://").split(":")
        self.socket = socket.create_connection((host, int(port)), timeout=20)
        ready = b"\x05READY\x0bSocket-Type" + struct.pack(">I", 6) + b"DEALER\x08Identity" + bytes(4)
        self.socket.sendall(b"\xff" + bytes(8) + b"\x7f\x03\x00NULL" + bytes(16) + bytes(32) +
                            bytes([4, len(ready)]) + ready)
        self.take(64)
        self.read()  # its READY

    def close(self):
        self.socket.close()

    def take(self, n):
        got = b""
        while len(got) < n:
            piece = self.socket.recv(n - len(got))
            if not piece:
                raise ConnectionError("the server hung up")
            got += piece
        return got

    def read(self):
        flags = self.take(1)[0]
        size = struct.unpack(">Q", self.take(8))[0] if flags & 2 else self.take(1)[0]
        return self.take(size)

    @staticmethod
    def frame(body, more=False):
        if len(body) < 256:
            return bytes([1 if more else 0, len(body)]) + body
        return bytes([3 if more else 2]) + struct.pack(">Q", len(body)) + body

    def hello(self, job):
        """All that was sent before has been looked at when the answer comes."""
        self.socket.sendall(self.frame(header(HELLO, 77, job, 0)))
        while True:
            body = self.read()
            kind = struct.unpack_from("<H", body, 8)[0]
            if kind != REFUSED:
                return kind


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
    OVER_ZMQ, OVER_SHM = 99000, 1000

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

    def test_zmq(self):
        numbers = random.Random(1)
        process, address, job = self.start("r", "--transport", "zmq", "--epochs", "600")
        host, port = address.removeprefix("tcp://").split(":")
        scans = [b"GET / HTTP/1.0\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", numbers.randbytes(3000),
                 b"\xff" + bytes(8) + b"\x7f\x03\x00CURVE" + bytes(47) + numbers.randbytes(200), b"", b"\xff"]
        for bytes_of_scanner in scans * 5:
            with socket.create_connection((host, int(port)), timeout=20) as scanner:
                scanner.sendall(bytes_of_scanner)
        good = header(5, 0, job, 200) + bytes(200)  # a gradient of worker 0, almost
        known, unknown = Zmtp(address), Zmtp(address)
        self.assertEqual(known.hello(job), HELLO + 1)
        sent = 0
        while sent < self.OVER_ZMQ:
            pieces = []
            for _ in range(500):
                bad = bytearray(good)
                if numbers.random() < 0.7:
                    bit = numbers.randrange(8 * 64)
                    bad[bit // 8] ^= 1 << bit % 8
                else:
                    bad = bad[:numbers.randrange(len(bad))]
                pieces.append(Zmtp.frame(bytes(bad[:64]), True) + Zmtp.frame(bytes(bad[64:]))
                              if numbers.random() < 0.3 else Zmtp.frame(bytes(bad)))
            for link in (known, unknown):
                link.socket.sendall(b"".join(pieces))
                link.hello(job)
                sent += len(pieces)
            # Larger than any frame may be: the connection ends, which is counted as well.
            with contextlib.closing(Zmtp(address)) as large:
                large.socket.sendall(b"\x02" + struct.pack(">Q", 1 << 40))
        known.close()
        unknown.close()
        self.unharmed(process, "r", self.OVER_ZMQ)

    def test_wrong_keys(self):
        """Knocking without keys, with nonsense for keys, and with a good pair that is not on the list."""
        numbers = random.Random(3)
        self.shoal("keygen", "keys")
        self.shoal("keygen", "others")
        shutil.copy(self.folder / "keys" / "server.pub", self.folder / "others" / "server.pub")
        process, address, _ = self.start("r", "--transport", "zmq", "--epochs", "600", keys=("--keys", "keys"))
        host, port = address.removeprefix("tcp://").split(":")
        (self.folder / "cluster.json").write_text(json.dumps(
            {"cluster": {"worker": ["127.0.0.1:1", "127.0.0.1:2"], "ps": [f"{host}:{port}"]}}))
        greeting = b"\xff" + bytes(8) + b"\x7f\x03\x00"
        hello = greeting + b"CURVE" + bytes(47) + bytes([4, 200]) + b"\x05HELLO\x01\x00" + bytes(72)
        knocks = 0
        for _ in range(3):
            for words in [greeting + b"NULL" + bytes(48)] * 50 + [hello + numbers.randbytes(120)] * 50:
                with socket.create_connection((host, int(port)), timeout=20) as s:
                    s.sendall(words)
                    with contextlib.suppress(ConnectionError):
                        while s.recv(4096):  # until it hangs up
                            pass
                knocks += 1
            _, err = self.shoal("train", "softmax", "--data", self.data, "--cluster", "cluster.json", "--task", "worker:1",
                                "--keys", "others", "--run-dir", "intruder", expect=1)
            self.assertIn("does not allow our key", err)
            knocks += 1
        self.unharmed(process, "r", knocks)
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

        hello = struct.pack("<QIIQQ", 0x6772656574000001, 1, 77, job, 64)
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
