"""`jgroups mqtt password USER`."""
from __future__ import annotations

import sys
from argparse import Namespace
from secrets import token_bytes

from jgroups_py.blocks.mqtt.broker.auth import hash_password
from jgroups_py.model.errors import ConfigError

SALT_BYTES = 16


def run(args: Namespace) -> int:
    """Print the line. Raises ConfigError."""
    if not args.user or ":" in args.user or args.user.startswith("#"):
        raise ConfigError(f"{args.user!r} is no user name: it is not empty, has no colon and does not begin with #")
    password = sys.stdin.buffer.readline().rstrip(b"\r\n")
    if not password:
        raise ConfigError("no password on stdin")
    print(f"{args.user}:{hash_password(password, token_bytes(SALT_BYTES))}")
    return 0
