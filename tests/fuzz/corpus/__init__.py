"""Inputs that once escaped, or that would if a bound went: a folder for each codec, a file of hex for each input.

Text after # is for the reader: what the input is; `HEX * N` stands for N times these bytes. Each is an ordinary test
(tests/fuzz/test_corpus.py), and a seed for more mutated ones.
"""
from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from pathlib import Path

FOLDER = Path(__file__).parent
LINE_DIGITS = 120


def corpus_of(codec: str) -> tuple[bytes, ...]:
    """The inputs of a codec."""
    return tuple(read(path) for path in files(codec))


def files(codec: str) -> list[Path]:
    """Their files."""
    return sorted((FOLDER / codec).glob("*.hex"))


def read(path: Path) -> bytes:
    """One input."""
    found = bytearray()
    for line in path.read_text(encoding="utf-8").splitlines():
        digits, _, times = line.partition("#")[0].partition("*")
        found += bytes.fromhex(digits) * int(times or 1)
    return bytes(found)


def keep(codec: str, data: bytes, name: str = "", about: str = "") -> Path:
    """Put an input into the corpus; its name is a hash of it, unless one is given."""
    path = FOLDER / codec / f"{name or blake2b(data, digest_size=6).hexdigest()}.hex"
    path.parent.mkdir(exist_ok=True)
    write(path, [data], about)
    return path


def write(path: Path, parts: Iterable[bytes | tuple[bytes, int]], about: str = "") -> None:
    """Write an input that consists of these parts; (part, N): N times."""
    lines = [f"# {about}"] if about else []
    for part in parts:
        if isinstance(part, tuple):
            lines.append(f"{part[0].hex()} * {part[1]}")
        else:
            digits = part.hex()
            lines += [digits[at:at + LINE_DIGITS] for at in range(0, len(digits), LINE_DIGITS)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
