"""Mutants made by hand: eight that once survived all unit tests and profiles (and two that read one of them otherwise).

Each is a text that stands once in a function, and what it becomes; so they outlast changes around them.
"""
from __future__ import annotations

import ast
from pathlib import Path

import attrs


@attrs.frozen
class Named:
    """function: dotted, as in mutations.py; old, new: any indentation, `old` may be part of a line or several lines."""

    name: str
    path: str
    function: str
    old: str
    new: str

    @property
    def key(self) -> str:
        """What it is known by in the results."""
        return f"{self.path}::{self.function}::by hand::{self.name}"

    def line(self, source: str) -> int:
        """The line of the text.

        Raises:
            ValueError: it does not stand in the function just once: the code has changed, adapt the mutant.
        """
        first, stop = extent(source, self.function)
        text = "".join(source.splitlines(keepends=True)[first - 1:stop - 1])
        if text.count(self.old) != 1:
            raise ValueError(f"{self.path}: {self.function} has {self.old!r} {text.count(self.old)} times, not once: "
                             f"adapt {self.name!r} in tests/mutants/named.py")
        return first + text[:text.index(self.old)].count("\n")

    def apply(self, source: str) -> str:
        """The source with the change.

        Raises:
            ValueError: as `line`.
        """
        lines = source.splitlines(keepends=True)
        at = self.line(source) - 1
        rest = "".join(lines[at:])
        return "".join(lines[:at]) + rest.replace(self.old, self.new, 1)


def extent(source: str, function: str) -> tuple[int, int]:
    """The lines of a function, half-open.

    Raises:
        ValueError: there is none of that name.
    """
    body: list[ast.stmt] = ast.parse(source).body
    first, stop = 1, len(source.splitlines()) + 1
    for name in function.split("."):
        named = [node for node in body if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == name]
        if not named:
            raise ValueError(f"there is no {function}")
        body, first, stop = named[0].body, named[0].lineno, (named[0].end_lineno or named[0].lineno) + 1
    return first, stop


RELAY, GMS, NAKACK = "jgroups_py/protocols/relay", "jgroups_py/protocols/gms", "jgroups_py/protocols/nakack"
VIEW_TO = "        self.bridge.send_to(to, ViewHeader(site, epoch, self.group.view.members))\n"
HELLO_TO = ("        self.bridge.send_to(to, HelloHeader(site, epoch, seen, answer), (), "
            "(Releases({self.me: self.release}),))\n")
NAMED = (
    Named("a retransmission of any view is taken", f"{NAKACK}/protocol.py", "Nakack.on_retransmission",
          "header.view != self.view or ", ""),
    Named("what a failed disk lost is not kept as missed", f"{RELAY}/journal/journal.py", "HoldJournal.failed",
          "self.missed.cover(origin, first, stop)", "pass"),
    Named("a failure while nothing is written is handled anew", f"{RELAY}/journal/journal.py", "HoldJournal.failed",
          "if not self.writing:", "if False:"),
    Named("a Cut is taken without a promise", f"{GMS}/acceptor.py", "ViewAcceptor.on_cut",
          "if flush != self.promises.promised:", "if False:"),
    Named("members with a Prepare get no view that another ballot decided", f"{GMS}/proposer.py",
          "ViewProposer.view_follows",
          "if flush is not None and self.announcement is None and install.flushes:", "if False:"),
    Named("a silent partner is merged with", f"{GMS}/merge.py", "MergeCoordinator.decide",
          "if silent or any(", "if any("),
    Named("what is owed is taken as the row says", f"{RELAY}/sites/table.py", "Site.combine",
          "owed = min(owed, self.owed.get(origin, 1))", "pass"),
    Named("what is owed is compared for unknown origins", f"{RELAY}/sites/table.py", "Site.combine",
          "if origin in self.acked:", "if origin not in self.acked:"),
    Named("HELLO before VIEW", f"{RELAY}/outbound/introducer.py", "Introducer.hello", f"{VIEW_TO}{HELLO_TO}",
          f"{HELLO_TO}{VIEW_TO}"),
    Named("confirmations of any view count", f"{RELAY}/inbound/acknowledger.py", "Acknowledger.confirms",
          "if not self.group.is_relay or header.view_id != self.group.view.id:", "if not self.group.is_relay:"),
)


def problems(root: Path) -> list[str]:
    """What no longer fits the sources."""
    found = []
    for named in NAMED:
        try:
            compile(named.apply((root / named.path).read_text(encoding="utf-8")), named.path, "exec")
        except ValueError as error:
            found.append(str(error))
    return found
