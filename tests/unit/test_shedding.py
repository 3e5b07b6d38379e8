"""What an application loses because it is too slow: counted, in order, and never anything else."""
from __future__ import annotations

from jgroups_py.model.address import ProxyUUID
from jgroups_py.model.batch import NO_FC, Batch
from jgroups_py.model.outputs import Closed, Deliver, MessagesSkipped, Output, SkipMulticasts, ViewInstalled
from jgroups_py.node.shedding import Shedding
from jgroups_py.testing.bench import address, multicast, unicast, view_of

A, B = address("A"), address("B")


def losses(outputs: list[Output]) -> list[tuple[str, int, int]]:
    return [(str(output.origin), output.messages, output.nbytes) for output in outputs
            if isinstance(output, MessagesSkipped)]


def skipping_a() -> Shedding:
    skipping = Shedding()
    assert skipping.switch(SkipMulticasts(A, True)) == []
    return skipping


def test_multicasts_of_that_sender_are_counted_and_reported_at_the_end() -> None:
    skipping = skipping_a()
    assert skipping.passed(Deliver(multicast("A", b"one", b"two"))) == []
    assert skipping.passed(Deliver(multicast("A", b"three"))) == []
    assert losses(skipping.switch(SkipMulticasts(A, False))) == [("A", 3, 11)]
    assert not skipping


def test_other_messages_pass() -> None:
    skipping = skipping_a()
    for batch in (multicast("B", b"x"), unicast("A", "C", b"x"), multicast("A", b"x", flags=NO_FC)):
        output = Deliver(batch)
        assert skipping.passed(output) == [output]


def test_what_a_relay_brings_from_another_site_is_reported_by_its_origin() -> None:
    skipping = skipping_a()
    origin = ProxyUUID(B, A, "SFO")
    assert skipping.passed(Deliver(Batch(origin, None, (b"far",)))) == []
    [(name, messages, nbytes)] = losses(skipping.switch(SkipMulticasts(A, False)))
    assert (name, messages, nbytes) == ("B@SFO", 1, 3)


def test_a_loss_is_reported_before_the_next_view_and_goes_on_in_it() -> None:
    skipping = skipping_a()
    skipping.passed(Deliver(multicast("A", b"old")))
    view = ViewInstalled(view_of("A", "B"))
    outputs = skipping.passed(view)
    assert losses(outputs) == [("A", 1, 3)]
    assert outputs[-1] is view
    skipping.passed(Deliver(multicast("A", b"newer")))
    assert losses(skipping.passed(Closed("left"))) == [("A", 1, 5)]


def test_without_a_loss_nothing_is_reported() -> None:
    assert losses(skipping_a().switch(SkipMulticasts(A, False))) == []
