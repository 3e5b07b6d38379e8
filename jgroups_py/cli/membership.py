"""`jgroups member` with a stack of SWIM alone: a member of a membership without views, controlled by stdin."""
from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from queue import SimpleQueue
from typing import Any

from jgroups_py.blocks.swim_membership import Membership
from jgroups_py.cli.commands import Ended, ignore_sigterm, log_drops, obey, watch_sigterm
from jgroups_py.cli.printer import Printer
from jgroups_py.cli.service import MemberService
from jgroups_py.model.errors import ChannelError
from jgroups_py.model.outputs import Output
from jgroups_py.ops.reports import Changes
from jgroups_py.protocols.swim.config import parse_places, parse_tags

COMMANDS = """commands on stdin with a stack of SWIM alone, a line each:
  members  stats             print that event now
  drops on|off               log each drop with its reason to stderr, or stop that
  join HOST:PORT,...         look for members there too
  tags KEY=VALUE,...         set this member's tags
  event NAME [TEXT]          spread a user event (with SERF in the stack)
  leave                      leave and exit (so do end of input and SIGTERM)
"""


class MembershipCommands:
    """A Membership that is controlled by stdin, or runs as a service, and prints events to stdout."""

    def __init__(self, membership: Membership, emit: Printer, service: MemberService | None = None) -> None:
        self.membership = membership
        self.service = service
        self.emit = emit
        self.changes = Changes(views=False)
        self.commands: dict[str, Callable[[str], None]] = {
            "members": self.show_members, "stats": self.show_stats, "join": self.join, "tags": self.set_tags,
            "event": self.send_event, "drops": log_drops,
        }
        self.outputs: SimpleQueue[Output] = SimpleQueue()
        membership.watch(self.outputs.put)
        threading.Thread(target=self.print_all, name="printer", daemon=True).start()

    def run(self, cluster: str, control: AbstractContextManager[Any]) -> int:
        """Join, execute commands, leave; returns the exit code."""
        watch_sigterm()
        try:
            with control:
                self.membership.join(cluster)
                address = self.membership.address
                assert address is not None, "it has joined"
                self.emit("ready", name=self.membership.name, address=address.raw.hex(), pid=os.getpid())
                if self.service is not None:
                    self.service.run(self.membership.name, self.membership.report)
                while rest := obey(self.commands, self.emit):
                    self.emit("error", message=f"write `leave`, not `leave {rest}`: a membership has no other sites")
        except Ended:
            pass
        except ChannelError as error:
            self.emit("error", message=str(error))
            return 1
        ignore_sigterm()
        if self.service is not None:
            self.service.leave()
        self.membership.leave()
        return 0

    # --- commands -----------------------------------------------------------------------------------------------------

    def show_members(self, _: str) -> None:
        """Emit the members."""
        self.emit("members", **self.membership.report())

    def show_stats(self, _: str) -> None:
        """Emit the statistics."""
        self.emit("stats", protocols=self.membership.stats())

    def join(self, places: str) -> None:
        """Look for members at more addresses."""
        self.membership.look_at(parse_places(places))

    def set_tags(self, tags: str) -> None:
        """Set this member's tags."""
        self.membership.set_tags(parse_tags(tags))

    def send_event(self, rest: str) -> None:
        """Spread a user event."""
        name, _, text = rest.partition(" ")
        self.membership.send_event(name, text.encode())

    # --- events -------------------------------------------------------------------------------------------------------

    def print_all(self) -> None:
        """Print the events of the member; on a thread of its own, since printing may block."""
        while True:
            for facts in self.changes.of(self.outputs.get()):
                self.emit(**facts)
