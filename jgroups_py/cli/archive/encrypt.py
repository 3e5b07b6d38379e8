"""`jgroups archive encrypt`: rewrites what is in clear, or encrypted with another key than the active one.

A segment is written anew beside itself, synced, renamed, and the former one removed; so a crash leaves either, or both
(then the encrypted one counts). A disk may keep what was removed: what must not be read there needs the disk's own
means. Open segments whose recorder has crashed are sealed first; those of a running one stay as they are.
"""
from __future__ import annotations

import os
import shutil
from argparse import Namespace
from pathlib import Path

import attrs

from jgroups_py.archive.encryption import ArchiveKeys, Sealing, parquet_of, place_of
from jgroups_py.archive.layout import ArchiveSegment, RecorderId, sealed_name, segments
from jgroups_py.archive.sealing import is_abandoned, seal, seal_abandoned
from jgroups_py.cli.showing import show
from jgroups_py.model.errors import ConfigError
from jgroups_py.sealing.files import PREAMBLE_BYTES
from jgroups_py.system.filesystem import new_file, sync_path


def encrypt(args: Namespace, recorders: list[RecorderId]) -> int:
    """Encrypt all segments that can be; 1 if a running recorder's is left in clear or under another key."""
    keys: ArchiveKeys | None = args.keys
    if keys is None:
        raise ConfigError("jgroups archive encrypt needs --key-file, a keyring (jgroups key new makes one)")
    seal_abandoned(args.directory, recorders, keys=keys)
    done, left = 0, 0
    for recorder in recorders:
        for segment in segments(args.directory, recorder):
            if not segment.sealed:
                left += not closed(segment, keys)
        for segment in segments(args.directory, recorder):
            if segment.sealed and not is_current(segment, keys):
                rewrite(segment, keys)
                done += 1
    show(f"{args.directory}: {done} segments encrypted with key {keys.keyring().active.name}; "
         f"{left} are being written, and stay as they are")
    return 1 if left else 0


def closed(segment: ArchiveSegment, keys: ArchiveKeys) -> bool:
    """Whether an open segment need not stay as it is: it is encrypted, or was left by a crash and is sealed now."""
    if segment.encrypted:
        return True
    if not is_abandoned(segment.path):
        return False
    seal(segment)
    return True


def is_current(segment: ArchiveSegment, keys: ArchiveKeys) -> bool:
    """Whether it is encrypted with the active key."""
    if not segment.encrypted:
        return False
    with segment.path.open("rb") as file:
        return keys.key_of(file.read(PREAMBLE_BYTES), segment.path).id == keys.keyring().active.id


def rewrite(segment: ArchiveSegment, keys: ArchiveKeys) -> Path:
    """Write a sealed segment anew, encrypted with the active key, in place of itself."""
    assert segment.stop is not None, "it is sealed"
    path = segment.path.with_name(sealed_name(segment.first, segment.stop, encrypted=True))
    draft = path.with_name(f"_draft-{path.name}")
    source = parquet_of(attrs.evolve(segment, keys=keys if segment.encrypted else None))
    try:
        new_file(draft)
        with (source.open("rb") if isinstance(source, Path) else source) as text, draft.open("wb") as file:
            sealing = Sealing(file, keys, place_of(segment.recorder, segment.first, segment.stop))
            shutil.copyfileobj(text, sealing)
            sealing.finish()
        sync_path(draft)
        os.replace(draft, path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    sync_path(path.parent)
    if segment.path != path:
        segment.path.unlink()
    return path
