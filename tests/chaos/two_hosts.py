"""Two hosts: network namespaces a and b, joined by veth; each with an address, and no way but that."""
from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from tests.chaos.netns import do

ADDRESSES = {"a": "10.93.7.1", "b": "10.93.7.2"}
RULES = """
table inet planted {{
    chain early {{ type filter hook prerouting priority -450; {rule} drop; }}
}}
"""


class TwoHosts:
    """Namespaces a and b, joined by veth."""

    def __init__(self) -> None:
        self.names = {name: f"jgtwo{os.getpid()}-{name}" for name in ADDRESSES}

    def __enter__(self) -> TwoHosts:
        for name in self.names.values():
            do("ip", "netns", "add", name)
        a, b = self.names.values()
        do("ip", "link", "add", "eth0", "netns", a, "type", "veth", "peer", "name", "eth0", "netns", b)
        for name, netns in self.names.items():
            do("ip", "-n", netns, "addr", "add", f"{ADDRESSES[name]}/24", "dev", "eth0")
            do("ip", "-n", netns, "link", "set", "eth0", "up")
            do("ip", "-n", netns, "link", "set", "lo", "up")
        return self

    def __exit__(self, *_: object) -> None:
        for name in self.names.values():
            do("ip", "netns", "del", name)

    def drop(self, rule: str, host: str = "b") -> None:
        """A host drops what the rule says."""
        do("ip", "netns", "exec", self.names[host], "nft", "-f", "-", stdin_text=RULES.format(rule=rule))

    def words(self, name: str, *command: str, properties: Mapping[str, str]) -> list[str]:
        """A command of `jgroups` at a host, which binds its address unless the properties say otherwise."""
        words = ["ip", "netns", "exec", self.names[name], sys.executable, "-m", "jgroups_py", *command]
        for key, value in {"bind_addr": ADDRESSES[name], **properties}.items():
            words += ["-p", f"{key}={value}"]
        return words
