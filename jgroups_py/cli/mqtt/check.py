"""`jgroups mqtt check FILE`."""
from __future__ import annotations

from argparse import Namespace

from jgroups_py.blocks.mqtt.node.node import stack_of
from jgroups_py.cli.mqtt.files import broker_file
from jgroups_py.model.text import place


def run(args: Namespace) -> int:
    """Print warnings, and where it listens. Raises ConfigError: the file is wrong, or the stack that it names."""
    found, warnings = broker_file(args.file)
    for warning in warnings:
        print(f"warning: {warning}")
    if found.federation is not None and found.federation.stack:
        stack_of(found.federation)
    for address in found.addresses():
        print(address)
    for endpoint in found.api.http:
        print(f"http{'s' if endpoint.tls else ''}://{place(*endpoint.address)}")
    return 0
