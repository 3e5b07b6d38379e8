"""What a site wants of other sites' topics: when a relay may still rely on what its members said."""
from __future__ import annotations

import pytest

from jgroups_py.protocols.relay.interests import Interests
from jgroups_py.topics import EVERYTHING, interest_in


class Relay:
    """What Interests asks of RELAY here; no other relay is there."""

    class sending:
        peers: tuple[()] = ()

    def __init__(self, *, is_relay: bool) -> None:
        self.is_relay = is_relay


@pytest.mark.parametrize(("is_relay", "joined", "kept"), [
    (True, False, True), (True, True, False), (False, False, False), (False, True, False)])
def test_only_a_relay_whose_view_got_no_joiner_knows_what_all_of_its_site_want(is_relay, joined, kept):
    interests = Interests(Relay(is_relay=is_relay))                  # type: ignore[arg-type]
    interests.set(interest_in("orders"))
    assert interests.mine == interest_in("orders")
    interests.view_changed(joined=joined)
    assert interests.mine == (interest_in("orders") if kept else EVERYTHING)
