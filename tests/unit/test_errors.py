"""Errors: their texts name what happened, and they survive the way to another process."""
from __future__ import annotations

import copy
import pickle

import pytest

from jgroups_py.model import errors


@pytest.mark.parametrize(("error", "text", "fields"), [
    (errors.ReceiversMissingError(1, 3), "1 of at least 3 receivers are there", {"receivers": 1, "wanted": 3}),
    (errors.ChannelClosedError("a bug"), "a bug", {"reason": "a bug"}),
    (errors.MessageLostError("SFO"), "lost for site SFO:", {"site": "SFO"}),
    (errors.MemberLeftError("B"), "B left before it answered", {"member": "B"}),
    (errors.NoMemberError("B"), "B is not in this member's view", {"member": "B"}),
    (errors.RemoteError("B", "KeyError", "'x'"), "B answered KeyError: 'x'", {"member": "B", "kind": "KeyError"}),
])
def test_an_error_of_the_application_has_the_same_text_after_it_was_pickled(error, text, fields):
    for again in (error, pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert text in str(again)
        assert {name: getattr(again, name) for name in fields} == fields
