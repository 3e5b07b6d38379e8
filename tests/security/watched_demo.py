"""A demo whose sites and members have long names, so that bytes on a wire cannot be them by chance.

    python -m tests.security.watched_demo OPTION...         the options of `jgroups demo`
"""
from __future__ import annotations

import sys

from jgroups_py.cli import main
from jgroups_py.cli.demo import director

SITES = ("site-of-new-york", "site-of-san-francisco")
MEMBERS = tuple(f"member-called-{word}" for word in ("alpha", "bravo", "carol", "delta", "ernie", "fanny"))

if __name__ == "__main__":
    director.SITE_NAMES, director.LETTERS = SITES, MEMBERS          # type: ignore[assignment]
    sys.exit(main(["demo", *sys.argv[1:]]))
