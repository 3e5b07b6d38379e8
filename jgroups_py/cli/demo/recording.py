"""The demo's archive: its folder, and the sealing of its segments at the end."""
from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import Any

from jgroups_py.cli.showing import complain
from jgroups_py.model.errors import ConfigError

FOLDER = "archive"


def archive_of(args: Namespace, out: Path) -> Path | None:
    """The folder in which members record; None: they do not.

    Raises:
        ConfigError: a folder was named, but what recording needs is not installed.
    """
    if args.no_archive:
        return None
    try:
        import jgroups_py.archive.arrow  # noqa: F401  raises ConfigError if pyarrow is missing
    except ConfigError as error:
        if args.archive:
            raise
        complain(f"nothing is recorded: {error}")
        return None
    return Path(args.archive) if args.archive else out / FOLDER


def sealed(directory: Path, keyring: Path | None = None) -> dict[str, Any]:
    """Seal the segments that killed members left open; returns figures of the archive. keyring: of an encrypted one."""
    from jgroups_py.archive.encryption import keys_of
    from jgroups_py.archive.layout import recorders
    from jgroups_py.archive.reading import next_row
    from jgroups_py.archive.sealing import seal_abandoned
    found = recorders(directory)
    damages = seal_abandoned(directory, found, keys=keys_of(keyring))
    return {"directory": str(directory), "recorders": len(found),
            "rows": sum(next_row(directory, recorder) for recorder in found),
            "key_file": None if keyring is None else str(keyring),
            "left_open": len(damages), "torn_bytes": sum(damage.cut_bytes for damage in damages)}


def as_line(archive: dict[str, Any]) -> str:
    """The figures as a line of text."""
    number = archive["left_open"]
    sealed = f"; open segments of killed members sealed: {number}" if number else ""
    option = f" --key-file {archive['key_file']}" if archive["key_file"] else ""
    return (f"recorded by {archive['recorders']} incarnations: {archive['rows']:,} rows{sealed}; "
            f"jgroups archive ls {archive['directory']}{option}")
