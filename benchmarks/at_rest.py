"""`python -m benchmarks.at_rest`: what encrypted files cost: processor time in the clear and sealed, in pairs by turns.

Journal: the records of held batches, made and written. Archive: rows with payloads, appended, sealed as Parquet, read
again. One process; medians of the pairs' ratios. No disk is waited for (no sync of the journal).
"""
from __future__ import annotations

import sys
import tempfile
from argparse import ArgumentParser
from collections.abc import Callable
from pathlib import Path
from random import Random
from statistics import median
from time import process_time

from jgroups_py.archive.encryption import ArchiveKeys
from jgroups_py.archive.layout import RecorderId
from jgroups_py.archive.reading import read_segment
from jgroups_py.archive.rows import lines_of
from jgroups_py.archive.sealing import seal
from jgroups_py.archive.segment import OpenFile
from jgroups_py.model.address import Address
from jgroups_py.model.batch import Batch
from jgroups_py.model.outputs import Record
from jgroups_py.protocols.relay.journal.records import batch_record
from jgroups_py.sealing.files import SALT_BYTES, FileCipher, preamble
from jgroups_py.sealing.keyring import new_keyring
from jgroups_py.system.secrets import SECRETS, write_keyring

ORIGIN = Address(b"a" * 16, "alice")
BATCH_BYTES = 60_000
RECORDER = RecorderId("bench", "NYC", "A", ORIGIN.raw.hex())


def journal(folder: Path, keys: ArchiveKeys | None, size: int, messages: int) -> None:
    """Write batches of messages of `size` bytes, 60 KB each at most, as a holder does."""
    number = max(1, BATCH_BYTES // size)
    batch = Batch(ORIGIN, None, (bytes(size),) * number)
    cipher = None
    if keys is not None:
        key = keys.keyring().active
        cipher = FileCipher(key, preamble(key, SECRETS.draw(SALT_BYTES)), b"hold")
    with (folder / "segment").open("wb", buffering=0) as file:
        at = 0
        for first in range(0, messages, number):
            record = batch_record(ORIGIN, first, 0, batch)
            at += file.write(bytes(record) if cipher is None else record.sealed(cipher, at))


def archive(folder: Path, keys: ArchiveKeys | None, size: int, messages: int) -> None:
    """Record messages with payloads of `size` bytes, seal the segment, read it."""
    rng = Random(size)
    payload = rng.randbytes(size)
    file = OpenFile(folder, RECORDER, 0, 1_700_000_000_000_000_000, 0, keys)
    per_record = max(1, min(messages, (4 << 20) // size))
    for first in range(0, messages, per_record):
        some = Record("delivered", first, None, per_record, 1, ORIGIN, "NYC", "all", first + 1, sizes=size,
                      payloads=(payload,) * per_record)
        file.append(lines_of([some], file.next_row, 0).serialize(), per_record)
    segment, _ = seal(file.segment)
    file.close()
    assert segment is not None
    rows = sum(len(batch) for batch in read_segment(segment))
    assert rows == file.next_row, "what was written is read"
    segment.path.unlink()


Work = Callable[[Path, ArchiveKeys | None, int, int], None]
PARTS: dict[str, Work] = {"journal": journal, "archive": archive}


def cost(work: Work, folder: Path, keys: ArchiveKeys | None, size: int, messages: int) -> float:
    """Processor time a message, us."""
    began = process_time()
    work(folder, keys, size, messages)
    return (process_time() - began) / messages * 1e6


def main(words: list[str]) -> int:
    """Print a line for each part and size."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--megabytes", type=int, default=60, help="payloads of one run")
    args = parser.parse_args(words)
    print(f"{'part':<9}{'size':>7}{'clear us':>10}{'sealed us':>11}{'ratio':>8}")
    with tempfile.TemporaryDirectory() as name:
        keyring = Path(name) / "keys"
        write_keyring(keyring, new_keyring(SECRETS.draw(32)), new=True)
        keys = ArchiveKeys(str(keyring))
        for part, work in PARTS.items():
            for size in (10, 100, 1000, 10_000):
                messages = min(400_000, args.megabytes * 1_000_000 // size)
                pairs = []
                for number in range(args.pairs + 1):
                    both = [cost(work, Path(name), chosen, size, messages) for chosen in (None, keys)]
                    if number:                               # the first pair warms up
                        pairs.append(both)
                clear, sealed = (median(values) for values in zip(*pairs, strict=True))
                ratio = median(one[1] / one[0] for one in pairs)
                print(f"{part:<9}{size:>7}{clear:>10.3f}{sealed:>11.3f}{ratio:>8.2f}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
