"""The properties of ARCHIVE."""
from __future__ import annotations

import attrs

from jgroups_py.model.errors import ConfigError
from jgroups_py.model.units import choice, duration, flag, show_size, size, text

BLOCK, DROP = "block", "drop"
NONE, INTERVAL, EVERY = "none", "interval", "every"


@attrs.frozen
class ArchiveConfig:
    """What is recorded, where, and how the files are written. The recorder, which writes them, reads it too."""

    directory: str = text(doc="Directory of the archive; made if missing. Members may share it: each has a folder.")
    payload: bool = flag(False, doc="Whether payloads are recorded, once at each member: with the delivery (unicasts "
                         "to others: with the sending). Needed for replay. Writes to the disk all that the group "
                         "sends, and at full speed costs a good part of the throughput; without it a message takes "
                         "some 10 bytes.")
    fsync: str = choice(INTERVAL, allowed=(NONE, INTERVAL, EVERY), doc="When rows are forced to the disk. Once "
                        "written, they survive the crash of the process in any case. A power cut loses: with none what "
                        "the system had not written back, with interval at most the last fsync_interval, with every "
                        "at most one flush.")
    fsync_interval_ns: int = duration("1s", least="1ms", name="fsync_interval", doc="How often rows are forced to the "
                                      "disk, with fsync=interval.")
    flush_interval_ns: int = duration("100ms", least="1ms", name="flush_interval", doc="How long rows are collected "
                                      "before they are written. Longer costs less CPU; a crash of the process loses "
                                      "the rows of that time.")
    segment_bytes: int = size("64M", least="64K", most="1G", name="segment_size", doc="Size at which a segment is "
                              "sealed (converted to Parquet). Larger makes fewer files for Spark, smaller makes rows "
                              "available as Parquet sooner.")
    segment_age_ns: int = duration("5m", least="1s", name="segment_age", doc="Age at which a segment is sealed; so is "
                                   "one whose hour of the day is over.")
    compression: str = choice("snappy", allowed=("none", "snappy", "lz4", "zstd"), doc="How sealed segments are "
                              "compressed.")
    retain_bytes: int = size("0", name="retain_size", doc="When this member's sealed segments take more bytes, the "
                             "oldest are removed; 0: none are.")
    retain_age_ns: int = duration("0", name="retain_age", doc="Sealed segments older than this are removed; 0: none.")
    on_slow: str = choice(DROP, allowed=(BLOCK, DROP), doc="What happens when the disk is slower than the group and "
                          "queue_size is full. drop: messages go on without being recorded, and are counted and "
                          "recorded as gaps; block: the group waits for this member's disk.")
    queue_bytes: int = size("64M", least="2M", name="queue_size", doc="Bytes of rows that may wait for the disk.")

    archive_keyring: str = text("", doc="Keyring (jgroups key new) with which the files are encrypted, best one of its "
                                "own. Readers, Spark too, need it (--key-file). Looked at again for each new file. "
                                "Empty: the files are not encrypted, and readable by this user alone.")

    def __attrs_post_init__(self) -> None:
        if not self.directory:
            raise ConfigError("ARCHIVE needs directory, the directory of the archive")
        if 0 < self.retain_bytes < self.segment_bytes:
            raise ConfigError(f"retain_size must be at least segment_size {show_size(self.segment_bytes)}, else a "
                              "segment is removed as soon as it is sealed")
