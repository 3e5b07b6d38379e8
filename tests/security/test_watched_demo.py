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

LINES = [f"the line that is replicated has the number {number:06}" for number in range(3000)]
WORDS = [b"the line that is replicated", *(name.encode() for name in (*SITES, *MEMBERS))]
WATCH = textwrap.dedent("""
    import os, socket, subprocess, sys, threading
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
                out.write(len(frame).to_bytes(4, "big") + frame)

    listener = threading.Thread(target=listen, args=(sys.argv[1],))
    listener.start()
    code = 1
    try:
        code = subprocess.run([sys.executable, "-m", "tests.security.watched_demo", *sys.argv[3:]],
                              stdout=open(sys.argv[2], "wb"), timeout=150).returncode
    finally:
        done = True
        listener.join()
    sys.exit(code)
""")


@attrs.frozen
class Watched:
    """What a demo showed. frames: of the wire; files: what it wrote, without its copies and its own input."""

    result: dict
    frames: list[bytes]
    files: dict[str, bytes]


def watched(folder: Path, *options: str) -> Watched:
    """Run a demo and listen."""
    (folder / "input.txt").write_text("\n".join(LINES) + "\n")
    wire, printed = folder / "wire", folder / "printed.json"
    root = Path(__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": str(root), "TMPDIR": str(folder)}
    ran = subprocess.run(["unshare", "--net", sys.executable, "-c", WATCH, str(wire), str(printed), "--input",
                          str(folder / "input.txt"), "--out", str(folder / "out"), "--no-audit", "--rate", "1000",
                          "--members", "3", "--json", *options],
                         cwd=root, env=environment, capture_output=True, timeout=180, check=False)
    assert ran.returncode == 0, (ran.stderr.decode(), printed.read_text()[-2000:])
    data, frames, at = wire.read_bytes(), [], 0
    while at < len(data):
        size = int.from_bytes(data[at:at + 4], "big")
        frames.append(data[at + 4:at + 4 + size])
        at += 4 + size
    files = {str(path.relative_to(folder)): path.read_bytes() for path in (folder / "out" / "archive").rglob("*")
             if path.is_file()}
    return Watched(json.loads(printed.read_text()), frames, {**files, "stderr": ran.stderr, "stdout": ran.stdout})


def found_in(frames: list[bytes]) -> set[bytes]:
    wire = b"\0".join(frames)
    return {word for word in WORDS if word in wire}


def datagram(frame: bytes) -> bytes | None:
    """What a UDP packet carries; None: it is another packet, or a later fragment."""
    packet = frame[14:]
    if frame[12:14] != b"\x08\0" or packet[9] != socket.IPPROTO_UDP or int.from_bytes(packet[6:8], "big") & 0x1FFF:
        return None
    return packet[4 * (packet[0] & 15) + 8:]


def test_who_listens_beside_a_secure_demo_learns_no_payload_no_name_and_no_key(tmp_path):
    seen = watched(tmp_path, "--secure")
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


def test_the_search_finds_all_of_it_in_a_demo_without_keys(tmp_path):
    seen = watched(tmp_path, "--no-kill")
    assert seen.result["ok"]
    assert found_in(seen.frames) == set(WORDS)
    assert any(WORDS[0] in data for data in seen.files.values())
