"""Errors: they say what happened, and survive the way to another process."""
from __future__ import annotations

import copy
import pickle

import pytest

from jgroups_py import errors


@pytest.mark.parametrize(("error", "says", "fields"), [
    (errors.ReceiversMissingError(1, 3), "1 of at least 3 receivers are there", {"receivers": 1, "wanted": 3}),
    (errors.ChannelClosedError("a bug"), "a bug", {"reason": "a bug"}),
    (errors.MessageLostError("SFO"), "lost for site SFO:", {"site": "SFO"}),
    (errors.MemberLeftError("B"), "B left before it answered", {"member": "B"}),
    (errors.NoMemberError("B"), "B is no member of the group, as far as is known here", {"member": "B"}),
    (errors.RemoteError("B", "KeyError", "'x'"), "B answered KeyError: 'x'", {"member": "B", "kind": "KeyError"}),
])
def test_an_error_of_the_application_says_the_same_after_it_was_pickled(error, says, fields):
    for again in (error, pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert says in str(again)
        assert {name: getattr(again, name) for name in fields} == fields
