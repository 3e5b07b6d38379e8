"""The option --key-file of commands that read archives."""
from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path


def add_key_file(parser: ArgumentParser) -> None:
    """Add --key-file."""
    parser.add_argument("--key-file", type=Path, metavar="FILE", help="the keyring of an encrypted archive (ARCHIVE's "
                        "archive_keyring); workers of Spark read it at the same path")
