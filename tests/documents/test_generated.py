"""Pages that are generated from the code are what the code says today."""
from __future__ import annotations

import pytest

import jgroups_py.channel.dispatcher  # noqa: F401
from tests.documents.generated import COMMAND, PAGES, REFERENCE, collapsed

# The dispatcher has an output of its own, which the page of outputs lists only if somebody has loaded it: here always.

@pytest.mark.parametrize("name", PAGES)
def test_a_generated_page_is_up_to_date(name: str) -> None:
    written = (REFERENCE / name).read_text(encoding="utf-8")
    assert collapsed(written) == collapsed(PAGES[name]()), f"docs/reference/{name} is stale: run {COMMAND}"
