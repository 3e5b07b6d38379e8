"""A short run of the codec fuzz, and its findings with wrong readers; `tox -e fuzz` tries 200,000 a codec."""
from __future__ import annotations

import pytest

from jgroups_py.model.errors import WireError
from tests.fuzz.codecs import Result, Target, attempt, fuzz
from tests.fuzz.targets import targets

INPUTS = 400


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("name", targets())
def test_mutated_inputs_give_a_value_or_the_documented_error(name: str) -> None:
    result = fuzz(targets()[name], 0, INPUTS)
    assert not result.causes, {cause: found.data.hex()[:400] for cause, found in result.first.items()}
    assert result.inputs == INPUTS


@pytest.mark.parametrize("name", targets())
def test_seeds_are_read_as_they_are(name: str) -> None:
    refused = Result()
    for data in targets()[name].seeds:
        assert attempt(targets()[name], data, refused) is None
    assert refused.refused <= len(targets()[name].seeds) // 2


def endless(data: bytes) -> None:
    sum(range(10_000_000 if data[:1] == b"!" else 1))


def undocumented(data: bytes) -> None:
    if data[:1] == b"!":
        raise KeyError("unexpected")
    raise WireError("as documented")


@pytest.mark.parametrize(("read", "cause"), [(endless, "CPU"), (undocumented, "KeyError in elsewhere")])
def test_a_reader_that_is_wrong_is_found(read: object, cause: str) -> None:
    result = fuzz(Target("wrong", read, (b"!", b"?")), 1, 10)             # type: ignore[arg-type]
    assert list(result.causes) == [cause]
    assert result.first[cause].data == b"!"
