"""One order of all multicasts among real processes: all flood, coordinators are killed, the survivors agree."""
from __future__ import annotations

import pytest

from tests.integration.ordered_floods import run


@pytest.mark.real
def test_accept_4_survivors_of_killed_coordinators_delivered_the_same_sequence() -> None:
    wrong = run("udp-total", "kill", 1500, 1000, most_gap_s=10.0)
    assert not wrong, "\n".join(wrong)
