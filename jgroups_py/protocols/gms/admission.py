"""Admission: which joiners take part in the next view change. It runs at the acting coordinator.

A view change waits for its joiners, and meanwhile no member of the group delivers. So each forged or dead joiner costs
the whole group more than a second. Two safeguards bound that:

* Return routability: a request is answered with a challenge, and counts when it is repeated with that token. The token
  is a keyed hash (as a SYN cookie), so the coordinator keeps no state for requests that are never repeated.
* A joiner that passed and does not answer a ballot stops admission: no ballot has joiners for `join_pause`, doubled
  each further time in a row, so that the group delivers most of the time.
"""
from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b

from jgroups_py.model.address import Address
from jgroups_py.model.batch import Batch
from jgroups_py.model.events import AddressesKnown
from jgroups_py.model.view import View
from jgroups_py.protocols.gms.config import GmsConfig
from jgroups_py.protocols.gms.headers import CoordinatorHint, JoinChallenge, JoinRefused, JoinRequest
from jgroups_py.protocols.gms.ports import GmsPort, ProposerPort
from jgroups_py.protocols.gms.state import GroupState, Lifecycle
from jgroups_py.stack.component import Component, receives, timer
from jgroups_py.wire import releases_in

MAX_WAITING = 1024         # joiners that passed the challenge and wait; more have to ask again later
MAX_AT_ONCE = 256          # joiners of one ballot
MAX_DOUBLINGS = 4          # of the pause after a ballot with a silent joiner
TOKEN_BYTES = 7            # fits the wire's integers, with room for the 1 that is added: see `token`


class Admission(Component):
    """The joiners of the group.

    joiners: joiners that passed the challenge and wait, in order of arrival; paused_until_ns: until then ballots have
    no joiners; failures: ballots in a row in which a joiner was silent.
    """

    config: GmsConfig
    layer: GmsPort
    proposer: ProposerPort              # set by Gms.assemble

    def __init__(self, layer: GmsPort, group: GroupState, secret: str) -> None:
        """secret: the key of the tokens, known to this member only; it comes from its node's seed."""
        super().__init__(layer)
        self.group = group
        self.key = blake2b(f"{secret}/admission".encode()).digest()
        self.joiners: dict[Address, None] = {}
        self.paused_until_ns = 0
        self.failures = 0

    @receives(JoinRequest)
    def on_join_request(self, header: JoinRequest, batch: Batch) -> None:
        """A joiner asks to be included: challenge it, queue it, or point it to the acting coordinator."""
        src, group = batch.src, self.group
        if header.member != src:
            return self.drop("joins_of_others_refused", batch, f"it asks for {header.member}", header)
        objection = self.layer.objection(header.member)
        if objection:
            if self.layer.contradiction(header.member):
                self.layer.disbelieve(src, objection)
            return self.drop("unidentified_refused", batch, objection, header)
        self.pass_down(AddressesKnown({header.member: header.physical}))
        misfit = self.layer.releases.objection(releases_in(batch), header.member)
        if misfit and group.view is not None and src not in group.view:
            self.warn(f"refuses a joiner: {misfit}")
            self.drop("releases_refused", batch, misfit, header)
            return self.send(JoinRefused(), src)
        if group.view is None or group.installed is None or group.lifecycle is Lifecycle.HANDED_OVER:
            return None
        if src in group.view:
            return self.send(group.installed, src)                   # its Install was lost
        if not group.acts():
            leader = group.acting_coordinator()
            return self.send(CoordinatorHint(leader, self.layer.addresses.physical_of(leader)), src)
        if src not in self.joiners:
            # No state before the token comes back, and a bounded queue after it: a valid frame is input (H1).
            token = self.token(header)
            if header.token != token:
                self.count("joiners_challenged")
                return self.send(JoinChallenge(token), src)
            if len(self.joiners) >= MAX_WAITING:
                return self.drop("joiners_refused", batch, "too many wait", header)
            self.joiners[src] = None
            self.layer.releases.note(releases_in(batch), (src,))
        return self.proposer.consider()

    def token(self, header: JoinRequest) -> int:
        """The token that a joiner at `header.physical` has to return; never 0, which in a request means "none yet"."""
        text = f"{header.member.raw.hex()} {header.physical}".encode()
        return 1 + int.from_bytes(blake2b(text, digest_size=TOKEN_BYTES, key=self.key).digest(), "big")

    # --- asked by the proposer ----------------------------------------------------------------------------------------

    def next_joiners(self) -> tuple[Address, ...]:
        """The joiners of a ballot that begins now."""
        if self.now_ns < self.paused_until_ns:
            return ()
        return tuple(self.joiners)[:MAX_AT_ONCE]

    def withdraw(self, joiner: Address) -> bool:
        """Remove `joiner` from the queue; whether it was in it."""
        waited = joiner in self.joiners
        self.joiners.pop(joiner, None)
        return waited

    def exclude_silent(self, joiners: Iterable[Address]) -> None:
        """`joiners` did not answer a ballot: remove them, and pause admission for all, with exponential backoff."""
        for joiner in joiners:
            self.count("silent_joiners")
            self.joiners.pop(joiner, None)
        pause_ns = self.config.join_pause_ns << min(self.failures, MAX_DOUBLINGS)
        self.failures += 1
        self.paused_until_ns = self.now_ns + pause_ns
        if pause_ns:
            self.set_timer("admit", pause_ns)

    @timer("admit")
    def on_pause_over(self) -> None:
        """Joiners that wait may be let in again."""
        self.proposer.consider()

    def view_decided(self, view: View) -> None:
        """A decided view with one of our joiners resets the backoff."""
        if any(member in self.joiners for member in view.members):
            self.failures = 0

    def view_installed(self, view: View) -> None:
        """Joiners that are members now wait no more."""
        self.joiners = {member: None for member in self.joiners if member not in view}
