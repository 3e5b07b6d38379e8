"""The files for operators name metrics that members have."""
from __future__ import annotations

import re
from importlib.resources import files

import attrs
import yaml

from jgroups_py.ops.dashboard import dashboard
from jgroups_py.ops.http.metrics import member_metrics
from tests.unit.ops.test_http_api import FACTS, REPORT, SNAPSHOT

NAME = re.compile(r"\b(?:jgroups|process)_[a-z_]+\b")
LAYERS = ("UDP", "NAKACK", "UNICAST", "GMS", "VERIFY_SUSPECT", "MFC", "UFC", "channel")


def known() -> set[str]:
    """The names of all metrics of a member with every layer."""
    stats = {**{layer: {} for layer in LAYERS}, "RELAY": {"journal_bytes": 1.0, "journal_fails": 0.0}}
    found = member_metrics(FACTS, attrs.evolve(SNAPSHOT, report=attrs.evolve(REPORT, stats=stats)))
    series = {metric.name + end for metric in found for end, _, _ in metric.histogram}
    return {metric.name for metric in found} | series


def test_the_dashboard_shows_metrics_that_exist():
    expressions = [target["expr"] for panel in dashboard()["panels"] for target in panel["targets"]]
    named = {name for expression in expressions for name in NAME.findall(expression)}
    assert len(expressions) > 20
    assert named <= known()


def test_the_alert_rules_ask_for_metrics_that_exist():
    text = files("jgroups_py.ops").joinpath("files", "jgroups.rules.yml").read_text()
    rules = yaml.safe_load(text)["groups"][0]["rules"]
    named = {name for rule in rules for name in NAME.findall(rule["expr"])}
    assert len(rules) == 16
    assert named <= known()
    assert all(rule["annotations"]["summary"] and rule["labels"]["severity"] in ("warning", "critical")
               for rule in rules)
