"""Mutants that no test can notice, by their keys, each with the reason; design/mutants.md shows them.

A key is file::function::operator::text of the line::running number, as the results have it.
"""
from __future__ import annotations

GMS = "jgroups_py/protocols/gms"
SEEK = "the timer `seek` runs only while a coordinator is asked: `search` and `stop` cancel it; a guard for readers"

EQUIVALENT: dict[str, str] = {
    f"{GMS}/join.py::JoinClient.on_repeat::ReplaceOrWithAnd::"
    "if self.phase is not JoinPhase.ASKING or self.coordinator is None:::1": SEEK,
    f"{GMS}/join.py::JoinClient.on_repeat::RemoveStatement::return::1": SEEK,
    "jgroups_py/protocols/unicast/state.py::Outgoing.__init__::ReplaceTrueWithFalse::self.used = True::1":
        "a connection is opened by a message to be sent, and that sets `used`",
    "jgroups_py/protocols/nakack/protocol.py::Nakack.on_data::AddNot::"
    "if not self.naks and not self.held and window.take_in_order(header.first, batch):::1":
        "`take_in_order` is a shorter way to what `add` and `settle` do; the mutant takes the long one where the short "
        "one is usual. Benchmarks see it, results do not differ",
    f"{GMS}/acceptor.py::ViewAcceptor.next_ballot::RemoveStatement::self.promises.note_round(ballot)::1":
        "the proposer sends its Prepare to this member too, which notes the ballot (`adopt_round`) before anything "
        "else happens",
    f"{GMS}/merge.py::MergeCoordinator.on_merge_request::RemoveStatement::"
    "self.proposer.consider()                       # an ordinary change first, then we are asked again::1":
        "whatever makes `present()` smaller than the view has called `consider` itself: the change is on its way",
    f"{GMS}/acceptor.py::ViewAcceptor.concerns::RemoveStatement::return False::2":
        "the branches that are left end in the same `return False`",
}
