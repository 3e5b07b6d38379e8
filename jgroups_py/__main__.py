"""`python -m jgroups_py` is the `jgroups` command."""
from __future__ import annotations

import sys

from jgroups_py.cli import main

if __name__ == "__main__":
    sys.exit(main())
