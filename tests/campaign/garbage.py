"""garbage.py PORT SEED: connections to a port that say nonsense, half a greeting, or nothing."""
import random
import socket
import sys
import time

numbers = random.Random(int(sys.argv[2]))
held = []
for _ in range(30):
    try:
        s = socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=1)
        # a greeting of ZeroMQ begins with ff 00 00 00 00 00 00 00 01 7f
        start = b"\xff\0\0\0\0\0\0\0\1\x7f\3\1" if numbers.random() < 0.5 else b""
        s.sendall(start + numbers.randbytes(numbers.randrange(400)))
        held.append(s)
    except OSError:
        pass
time.sleep(0.5)
