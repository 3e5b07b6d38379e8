"""Beside a real Aeron C media driver, which PyPI's pyaeron embeds: `tox -e aeron` (Python 3.12 or newer)."""
from __future__ import annotations

from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("pyaeron") else ["*.py"]
