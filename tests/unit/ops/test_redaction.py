"""IP addresses in reports: which are found, and what stays."""
from __future__ import annotations

import pytest

from jgroups_py.ops.masking import Redaction


@pytest.mark.parametrize(("text", "redacted"), [
    ("10.0.0.1", "private-1"), ("10.0.0.1:7800", "private-1:7800"), ("10.0.0.1[7800],10.0.0.2[7800]",
                                                                     "private-1[7800],private-2[7800]"),
    ("http://192.168.7.9:7580/x", "http://private-1:7580/x"), ("0.0.0.0", "any-1"), ("239.8.8.8", "multicast-1"),
    ("8.8.8.8", "public-1"), ("::1", "loopback-1"), ("[::1]:7800", "[loopback-1]:7800"), ("::", "any-1"),
    ("fe80::1%eth0 is up", "link-local-1 is up"), ("2a00:1450:4001:81b::200e", "public-1"), ("ff02::1", "multicast-1"),
    ("it is 10.0.0.1, which", "it is private-1, which"), ("::ffff:10.0.0.1", "private-1"),
    ("from 10.0.0.1.", "from private-1.")])
def test_an_address_is_found_wherever_it_stands(text: str, redacted: str) -> None:
    assert Redaction().of(text) == redacted


@pytest.mark.parametrize("text", [
    "12:34:56", "2026-11-24T12:34:56.789", "3.11.7", "1.2.3.4.5", "300.1.1.1", "aa:bb:cc:dd:ee:ff", "A|2", "::x",
    "0123456789abcdef0123456789abcdef", "jgroups_py::ops", "v10.0.0.1"])
def test_what_is_none_stays(text: str) -> None:
    assert Redaction().of(text) == text


def test_one_address_has_one_word_in_names_too() -> None:
    redaction = Redaction()
    assert redaction.of({"10.0.0.1:1": [{"at": "10.0.0.1"}, 7, None, "10.0.0.2"]}) == {
        "private-1:1": [{"at": "private-1"}, 7, None, "private-2"]}
    assert redaction.of("10.0.0.2") == "private-2"
