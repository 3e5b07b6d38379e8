"""The runbook has each alert of the packaged rules, and says what to look at and what to do."""
from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
RULES = ROOT / "jgroups_py" / "ops" / "files" / "jgroups.rules.yml"
RUNBOOK = ROOT / "docs" / "how-to" / "runbook.md"


def sections() -> dict[str, str]:
    """Alert -> its text; a heading may name several."""
    found: dict[str, str] = {}
    for part in re.split(r"^## ", RUNBOOK.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        heading, _, text = part.partition("\n")
        found.update(dict.fromkeys(re.findall(r"\bJgroups\w+", heading), text))
    return found


def alerts() -> list[str]:
    """The names of the rules that alert."""
    groups = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
    return [rule["alert"] for group in groups for rule in group["rules"] if "alert" in rule]


def test_each_alert_has_a_section_and_each_section_an_alert() -> None:
    assert len(alerts()) > 10
    assert Counter(alerts()) == Counter(dict.fromkeys(sections(), 1))


def test_each_section_says_what_to_look_at_and_what_to_do() -> None:
    assert [alert for alert, text in sections().items() if "*Look*" not in text or "*Do*" not in text] == []
