"""The live page as a file: what a browser is allowed to run, and that no text of a member can become markup."""
from __future__ import annotations

import base64
import hashlib
import re

import pytest

from jgroups_py.ops.live.growth import Growth
from jgroups_py.ops.live.page import page, policy
from jgroups_py.ops.live.picture import LONGEST_TEXT, cut

BODY = page().body.decode()
MOST_BYTES = 60_000


def test_the_policy_names_the_script_and_the_style_of_the_page_and_nothing_else():
    script = BODY.split("<script>")[1].split("</script>")[0]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in policy(BODY)
    assert policy(BODY.replace("RETRY_MS = 1000", "RETRY_MS = 2000")) != policy(BODY)
    with pytest.raises(ValueError):
        policy(BODY + "<script>alert(1)</script>")


def test_the_page_fetches_nothing_from_elsewhere():
    assert set(re.findall(r"https?://[^\"' ]+", BODY)) == {"http://www.w3.org/2000/svg"}
    assert not re.search(r"\b(src|srcset|@import|integrity)=", BODY)
    assert len(BODY) < MOST_BYTES


def test_texts_become_text_nodes_only():
    for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "Function(", "srcdoc",
                 "DOMParser", "createContextualFragment"):
        assert word not in BODY
    assert not re.search(r"<[^>]+\s(on[a-z]+|style)=", BODY), "no handlers and no styles in attributes"


def test_long_texts_are_cut_and_short_ones_are_not():
    assert cut("NYC") == "NYC"
    assert len(cut("x" * 10_000)) == LONGEST_TEXT


def test_rates_are_of_the_last_two_snapshots_and_a_restart_is_no_negative_one():
    growth = Growth()
    growth.take(10.0, {"A": 100})
    assert growth.rates == {}
    growth.take(12.0, {"A": 300, "B": 5})
    assert growth.rates == {"A": 100.0}
    growth.take(12.0, {"A": 900})
    assert growth.rates == {"A": 100.0}, "one that was taken already"
    growth.take(13.0, {"A": 7, "B": 5})
    assert growth.rates == {"A": 0.0, "B": 0.0}
    assert growth.grew_at == {"A": 13.0, "B": 12.0}
