"""Mutants that nobody can notice, by their keys, each with the reason; design/mutants.md shows them.

A key is file::function::operator::text of the line::running number, as the results have it.
"""
from __future__ import annotations

JOINING = "jgroups_py/protocols/gms/joining.py"
SEEK = "the timer `seek` runs only while we ask a coordinator: `search` and `done` cancel it; the guard is for readers"

EQUIVALENT: dict[str, str] = {
    f"{JOINING}::Seeker.tick::ReplaceOrWithAnd::if self.phase != ASKING or self.coordinator is None:::1": SEEK,
    f"{JOINING}::Seeker.tick::RemoveStatement::return::1": SEEK,
    "jgroups_py/protocols/unicast/state.py::Outgoing.__init__::ReplaceTrueWithFalse::self.used = True::1":
        "a connection is opened by a message to be sent, and that sets `used`",
    "jgroups_py/protocols/nakack/nakack.py::Nakack.data::AddNot::"
    "if not self.gaps and not self.held and window.straight(header.first, batch):::1":
        "`straight` is a shorter road to what `add` and `settle` do; the mutant takes the long one where the short one "
        "is usual. Benchmarks see it, results do not differ",
    "jgroups_py/protocols/gms/chair.py::Chair.start::RemoveStatement::gms.mine.saw(ballot)::1":
        "`ask`, a few lines below, gives its Prepare to this member too, which notes the ballot (`sees`) before "
        "anything else happens",
    "jgroups_py/protocols/gms/merging.py::Merger.asked::RemoveStatement::gms.chair.consider()                       "
    "# an ordinary change first, then we are asked again::1":
        "whatever makes `present()` smaller than the view has called `consider` itself: the change is on its way",
    "jgroups_py/protocols/gms/answering.py::Answerer.concerns::RemoveStatement::return False::2":
        "the branches that are left end in the same `return False`",
}
