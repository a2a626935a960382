"""Reads event files with nothing of Shoal's own: TFRecord framing, CRC-32C and protobuf's wire format from their
definitions."""
import struct


def crc32c(data, table=[]):
    if not table:
        for i in range(256):
            for _ in range(8):
                i = i >> 1 ^ (0x82F63B78 if i & 1 else 0)
            table.append(i)
    crc = 0xFFFFFFFF
    for byte in data:
        crc = table[(crc ^ byte) & 255] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def masked(data):
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def records(path):
    data = path.read_bytes()
    at = 0
    while at < len(data):
        length, check = struct.unpack_from("<QI", data, at)
        assert masked(data[at:at + 8]) == check, f"{path}: wrong checksum of a length at {at}"
        body = data[at + 12:at + 12 + length]
        assert len(body) == length, f"{path}: cut off at {at}"
        assert masked(body) == struct.unpack_from("<I", data, at + 12 + length)[0], f"{path}: wrong checksum at {at}"
        yield body
        at += length + 16


def varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 127) << shift
        shift += 7
        at += 1
        if not data[at - 1] & 128:
            return value, at


def fields(data):
    """{number: [values]}: integers, 4 or 8 raw bytes, or the bytes inside."""
    out, at = {}, 0
    while at < len(data):
        tag, at = varint(data, at)
        wire = tag & 7
        if wire == 0:
            value, at = varint(data, at)
        else:
            length = {1: 8, 5: 4}.get(wire)
            if length is None:
                assert wire == 2, f"wire type {wire}"
                length, at = varint(data, at)
            value, at = data[at:at + length], at + length
        out.setdefault(tag >> 3, []).append(value)
    return out


def read(folder):
    """What the event files of one folder hold: scalars {tag: [(step, value)]}, histograms, texts, graph."""
    out = {"scalars": {}, "histograms": {}, "texts": {}, "graph": None, "versions": 0}
    for path in sorted(folder.glob("events.out.tfevents.*")):
        for record in records(path):
            event = fields(record)
            step = event.get(2, [0])[0]
            out["versions"] += event.get(3) == [b"brain.Event:2"]
            if 4 in event:
                out["graph"] = event[4][0]
            for summary in event.get(5, []):
                for value in map(fields, fields(summary).get(1, [])):
                    tag = value[1][0].decode()
                    if 2 in value:
                        out["scalars"].setdefault(tag, []).append((step, struct.unpack("<f", value[2][0])[0]))
                    if 5 in value:
                        out["histograms"].setdefault(tag, []).append((step, fields(value[5][0])))
                    if 8 in value:
                        out["texts"][tag] = fields(value[8][0])[8][0].decode()
    return out
