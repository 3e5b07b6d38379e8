"""What a member reports of itself for the control socket and HTTP: its counters, its stack, what it runs on."""
from __future__ import annotations

import platform
import re
from importlib.metadata import PackageNotFoundError, requires, version

from jgroups_py import __version__
from jgroups_py.channel.base import BaseChannel
from jgroups_py.config.spec import StackSpec
from jgroups_py.node.node import Node
from jgroups_py.ops.masking import masked
from jgroups_py.ops.reports import Facts, config_facts
from jgroups_py.ops.watch import ask_node
from jgroups_py.wire.frame import VERSION

_NAME = re.compile("[A-Za-z0-9._-]+")


def running_facts() -> Facts:
    """The versions of this process: package, wire format, Python, system, and of the packages that may be used."""
    return {"version": __version__, "wire": VERSION, "python": platform.python_version(),
            "implementation": platform.python_implementation(), "system": platform.system(),
            "release": platform.release(), "machine": platform.machine(), "packages": _packages()}


def _packages() -> dict[str, str]:
    found = {}
    try:
        wanted = requires("jgroups_py") or []
    except PackageNotFoundError:                             # runs from its source
        wanted = ["attrs", "pyzmq", "h11", "cryptography", "dnspython", "pyarrow", "pyspark", "rich", "PyYAML"]
    for requirement in wanted:
        name = _NAME.match(requirement)
        if name is not None:
            try:
                found[name[0].lower()] = version(name[0])
            except PackageNotFoundError:
                continue                                     # of an extra
    return dict(sorted(found.items()))


def config_report(spec: StackSpec) -> Facts:
    """The stack as it runs, without secrets, and what it runs on."""
    facts: Facts = masked({"stack": spec.source, "protocols": config_facts(spec), "running": running_facts()})
    return facts


def stats_report(channel: BaseChannel) -> Facts:
    """All counters, as `ch.stats()`.

    Raises:
        NotConnectedError: the channel is in no group, or its loop does not run.
    """
    session = channel.connection()

    def take(node: Node, now_ns: int) -> dict[str, dict[str, float]]:
        stats = session.host.stats(node)
        stats["channel"].update(session.dispatcher.counters)
        return stats
    return {"stats": ask_node(channel, take)}
