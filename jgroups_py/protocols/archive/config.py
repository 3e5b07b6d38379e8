"""What can be set about ARCHIVE."""
from __future__ import annotations

import attrs

from jgroups_py.model.errors import ConfigError
from jgroups_py.model.units import choice, duration, flag, show_size, size, text

BLOCK, DROP = "block", "drop"
NONE, INTERVAL, EVERY = "none", "interval", "every"


@attrs.frozen
class ArchiveConfig:
    """Properties of ARCHIVE. Parsed by the recorder too, which writes the files."""

    directory: str = text(doc="Where the archive is; made if missing. Members may share it: each has a folder.")
    payload: bool = flag(False, doc="Whether payloads are recorded, once a member: with the delivery (unicasts to "
                         "others: with the sending). Needed for replay. Costs the disk what the group carries, and at "
                         "full speed a good part of the throughput; without it a message takes some 10 bytes.")
    fsync: str = choice(INTERVAL, allowed=(NONE, INTERVAL, EVERY), doc="When rows are brought to the disk itself. All "
                        "survive the crash of the process once written; of a power cut: none loses what the system had "
                        "not written back, interval that long at most, every what was in one flush.")
    fsync_interval_ns: int = duration("1s", least="1ms", name="fsync_interval", doc="How often, with fsync=interval.")
    flush_interval_ns: int = duration("100ms", least="1ms", name="flush_interval", doc="How long rows gather before "
                                      "they are written. Longer costs less CPU; a crash of the process loses so much.")
    segment_bytes: int = size("64M", least="64K", most="1G", name="segment_size", doc="A segment of so many bytes is "
                              "sealed. Larger makes fewer files for Spark, smaller makes them Parquet sooner.")
    segment_age_ns: int = duration("5m", least="1s", name="segment_age", doc="A segment of this age is sealed; so is "
                                   "one whose hour is over.")
    compression: str = choice("snappy", allowed=("none", "snappy", "lz4", "zstd"), doc="Of sealed segments.")
    retain_bytes: int = size("0", name="retain_size", doc="Beyond so many bytes of sealed segments the oldest of this "
                             "member are removed; 0: none are.")
    retain_age_ns: int = duration("0", name="retain_age", doc="Sealed segments older than this are removed; 0: none.")
    on_slow: str = choice(DROP, allowed=(BLOCK, DROP), doc="When the disk is slower than the group and queue_size is "
                          "full: drop counts what is not recorded and writes it down as gaps; block lets the group "
                          "wait for this member's disk.")
    queue_bytes: int = size("64M", least="2M", name="queue_size", doc="Bytes that may wait for the disk.")

    def __attrs_post_init__(self) -> None:
        if not self.directory:
            raise ConfigError("ARCHIVE needs directory, where the archive is to be")
        if 0 < self.retain_bytes < self.segment_bytes:
            raise ConfigError(f"retain_size must be at least segment_size {show_size(self.segment_bytes)}, else a "
                              "segment goes as soon as it is sealed")
