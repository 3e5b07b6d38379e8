"""`jgroups mqtt check FILE`."""
from __future__ import annotations

from argparse import Namespace

from jgroups_py.cli.mqtt.files import broker_file


def run(args: Namespace) -> int:
    """Print warnings and the listeners. Raises ConfigError."""
    found, warnings = broker_file(args.file)
    for warning in warnings:
        print(f"warning: {warning}")
    for address in found.addresses():
        print(address)
    return 0
