"""Supervisor: what the leader of a partition does for its machine by its own clock, beside carrying out writes.

Nothing of it is replicated: each leader begins anew, once the first entry of its epoch is committed. So a supervisor
may count time, which a machine may not; what it decides becomes a write. What it knows of earlier leaders is from when
on none of them has answered anybody (Machine.begin_supervisor).
"""
from __future__ import annotations

from abc import ABC, abstractmethod

from jgroups_py.model.address import Address


class Supervisor(ABC):
    """Called inside rounds, with monotonic times."""

    @property
    @abstractmethod
    def next_deadline_ns(self) -> int | None:
        """When `advance` is due."""

    @abstractmethod
    def advance(self, now_ns: int) -> list[bytes]:
        """Time has passed. Returns commands to be written."""

    @abstractmethod
    def applied(self, now_ns: int) -> None:
        """The machine has carried out writes."""

    @abstractmethod
    def asked(self, query: bytes, now_ns: int) -> None:
        """A strong read has arrived. It is answered once a majority has confirmed that this replica leads."""

    @abstractmethod
    def answer(self, query: bytes) -> bytes | None:
        """The answer to a strong read, in place of the machine's; None: the machine's is right."""

    @abstractmethod
    def gone(self, member: Address, now_ns: int) -> None:
        """The process of a member has ended for certain (model/outputs: MemberGone)."""
