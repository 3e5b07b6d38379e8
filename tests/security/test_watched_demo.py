"""A process listens on the interface over which all frames of a two-site demo go, and looks through what it leaves.

Each demo runs in a network namespace of its own, whose loopback a packet socket reads. With --secure no payload and no
name is on the wire, in the archive or in a log, and no key anywhere but in the folder of keys; without it the same
search finds all of them, so it would notice.
"""
from __future__ import annotations

import json
import os
import re
import socket
import struct
import subprocess
import sys
import textwrap
from pathlib import Path

import attrs
import pytest

from tests.security.watched_demo import MEMBERS, SITES

pytest.importorskip("pyarrow")
pytest.importorskip("cryptography")
pytestmark = [pytest.mark.real, pytest.mark.skipif(os.geteuid() != 0, reason="packet sockets need root")]

LINE = "the line that is replicated"
WORDS = [LINE.encode(), *(name.encode() for name in (*SITES, *MEMBERS))]
WATCH = textwrap.dedent("""
    import os, socket, subprocess, sys, threading, time
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    tap = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    tap.bind(("lo", 0))
    tap.setsockopt(socket.SOL_SOCKET, 33, 64 << 20)          # SO_RCVBUFFORCE
    tap.settimeout(0.5)
    done = False

    def listen(path):
        with open(path, "wb") as out:
            while not done:
                try:
                    frame = tap.recv(70_000)
                except TimeoutError:
                    continue
                out.write(len(frame).to_bytes(4, "big") + int(time.monotonic()).to_bytes(4, "big") + frame)

    listener = threading.Thread(target=listen, args=(sys.argv[1],))
    listener.start()
    code = 1
    try:
        code = subprocess.run([sys.executable, "-m", "tests.security.watched_demo", *sys.argv[4:]],
                              stdout=open(sys.argv[2], "wb"), timeout=float(sys.argv[3])).returncode
    finally:
        done = True
        listener.join()
    sys.exit(code)
""")


@attrs.frozen
class Watched:
    """What a demo showed. frames: of the wire; seconds: between the first and the last one; files: what it wrote,
    without its copies and its own input."""

    result: dict
    frames: list[bytes]
    seconds: int
    files: dict[str, bytes]


def watched(folder: Path, *options: str, lines: int = 3000, rate: int = 1000) -> Watched:
    """Run a demo and listen. rate: lines a second."""
    (folder / "input.txt").write_text("".join(f"{LINE} has the number {number:06}\n" for number in range(lines)))
    wire, printed, within_s = folder / "wire", folder / "printed.json", 147 + lines / rate
    root = Path(__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": str(root), "TMPDIR": str(folder)}
    ran = subprocess.run(["unshare", "--net", sys.executable, "-c", WATCH, str(wire), str(printed), str(within_s),
                          "--input", str(folder / "input.txt"), "--out", str(folder / "out"), "--no-audit",
                          "--rate", str(rate), "--members", "3", "--json", *options],
                         cwd=root, env=environment, capture_output=True, timeout=within_s + 30, check=False)
    assert ran.returncode == 0, (ran.stderr.decode(), printed.read_text()[-2000:])
    data, frames, times, at = wire.read_bytes(), [], [], 0
    while at < len(data):
        size, time_s = struct.unpack_from(">II", data, at)
        frames.append(data[at + 8:at + 8 + size])
        times.append(time_s)
        at += 8 + size
    files = {str(path.relative_to(folder)): path.read_bytes() for path in (folder / "out" / "archive").rglob("*")
             if path.is_file()}
    return Watched(json.loads(printed.read_text()), frames, times[-1] - times[0],
                   {**files, "stderr": ran.stderr, "stdout": ran.stdout})


def found_in(frames: list[bytes]) -> set[bytes]:
    wire = b"\0".join(frames)
    return {word for word in WORDS if word in wire}


def datagram(frame: bytes) -> bytes | None:
    """What a UDP packet carries; None: it is another packet, or a later fragment."""
    packet = frame[14:]
    if frame[12:14] != b"\x08\0" or packet[9] != socket.IPPROTO_UDP or int.from_bytes(packet[6:8], "big") & 0x1FFF:
        return None
    return packet[4 * (packet[0] & 15) + 8:]


@pytest.mark.parametrize(("lines", "rate", "least_s"), [
    pytest.param(3000, 1000, 5, id="some seconds"),
    pytest.param(12_000, 200, 60, id="a minute", marks=pytest.mark.long)])
def test_who_listens_beside_a_secure_demo_learns_no_payload_no_name_and_no_key(tmp_path, lines, rate, least_s):
    seen = watched(tmp_path, "--secure", lines=lines, rate=rate)
    assert seen.seconds >= least_s
    assert seen.result["ok"]
    assert len(seen.frames) > 3000
    assert found_in(seen.frames) == set()
    datagrams = [data for data in map(datagram, seen.frames) if data is not None]
    assert len(datagrams) > 1000
    assert {data[:3] for data in datagrams} == {b"JP\2"}, "a datagram that is not sealed"
    assert not [name for name, data in seen.files.items() if any(word in data for word in WORDS[:1])]
    keys = Path(seen.result["keys"])
    assert (keys.stat().st_mode & 0o777) == 0o700
    assert {path.stat().st_mode & 0o777 for path in keys.iterdir()} == {0o600}
    secrets = [found for path in keys.iterdir() for found in secrets_in(path)]
    assert len(secrets) == 4 + len(MEMBERS)
    everything = [*seen.files.values(), (tmp_path / "printed.json").read_bytes(), b"\0".join(seen.frames)]
    assert not any(form in data for secret in secrets for form in secret for data in everything)
    archived = [path for path in seen.files if "member=" in path]
    assert archived
    assert all(path.endswith(".aes") for path in archived)


def secrets_in(path: Path) -> list[tuple[bytes, ...]]:
    """The secrets of a file, each in the forms in which it could stand somewhere."""
    text = path.read_text()
    if path.suffix == ".pem":
        [body] = re.findall(r"-----BEGIN PRIVATE KEY-----\n(.*)\n-----END", text)
        return [(body.encode(),)]
    if path.suffix == ".keys":
        return [(word.encode(), bytes.fromhex(word)) for word in re.findall(r'"key": "([0-9a-f]{64})"', text)]
    return []


@pytest.mark.long
def test_the_search_finds_all_of_it_in_a_demo_without_keys(tmp_path):
    seen = watched(tmp_path, "--no-kill")
    assert seen.result["ok"]
    assert found_in(seen.frames) == set(WORDS)
    assert any(WORDS[0] in data for data in seen.files.values())
