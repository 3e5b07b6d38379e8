"""The metrics, rules and scrapes of members, judged by the real Prometheus (tox -e ops)."""
from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from jgroups_py.cli import main
from jgroups_py.ops.dashboard import dashboard
from jgroups_py.system.free_ports import free_range
from tests.integration.members import Group
from tests.integration.serf_agent import until
from tests.ops.prometheus import Prometheus, ensure

pytestmark = pytest.mark.ops
HERE = Path(__file__).parent
STACKS = HERE.parents[1] / "stacks"
MESSAGES = 5_000


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """What `jgroups ops files` writes."""
    assert main(["ops", "files", str(tmp_path)]) == 0
    return tmp_path


def promtool(folder: Path, *words: str, text: str | None = None) -> str:
    done = subprocess.run([str(ensure("promtool")), *words], cwd=folder, input=text, capture_output=True, text=True,
                          check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_the_rules_and_the_scrape_configuration_are_valid(files: Path):
    assert "16 rules found" in promtool(files, "check", "config", "prometheus.yml")
    assert "16 rules found" in promtool(files, "check", "rules", "jgroups.rules.yml")


def test_a_rule_that_is_wrong_is_refused(files: Path):
    rules = files / "jgroups.rules.yml"
    text = rules.read_text()
    rules.write_text(text.replace("expr: jgroups_journal_failing == 1", "expr: jgroups_journal_failing =="))
    with pytest.raises(AssertionError, match="parse error"):
        promtool(files, "check", "rules", rules.name)


def test_the_rules_fire_when_they_should_and_only_then(files: Path):
    shutil.copy(HERE / "rules_test.yml", files)
    assert "SUCCESS" in promtool(files, "test", "rules", "rules_test.yml")


class TwoSites:
    """NYC with A and B, SFO with D, each with an endpoint."""

    def __init__(self) -> None:
        first = free_range(10)
        bridge = {"bridge_port": first, "bridge_hosts": f"127.0.0.1[{first}],127.0.0.1[{first + 1}]",
                  "bridge_name": f"ops-{first}"}
        self.nyc, self.sfo = (Group(str(STACKS / f"{site}.xml"), site, **bridge) for site in ("nyc", "sfo"))
        self.targets: dict[str, str] = {}

    def start(self, group: Group, name: str) -> None:
        ready = group.spawn(name, ["--http", "0"]).ready()
        self.targets[name] = ready["http"].removeprefix("http://")


@pytest.fixture
def sites() -> Iterator[TwoSites]:
    found = TwoSites()
    with found.nyc, found.sfo:
        for group, name in ((found.nyc, "A"), (found.nyc, "B"), (found.sfo, "D")):
            found.start(group, name)
        found.nyc.settle("AB")
        yield found


def test_metrics_are_as_prometheus_wants_them(sites: TwoSites, files: Path):
    import urllib.request
    with urllib.request.urlopen(f"http://{sites.targets['A']}/metrics", timeout=30) as answer:
        promtool(files, "check", "metrics", text=answer.read().decode())


def test_while_a_relay_dies_the_ledger_adds_up_in_every_scrape_and_its_absence_alone_is_alarmed(
    sites: TwoSites, files: Path,
):
    with Prometheus(files, sites.targets) as prometheus:
        until(lambda: prometheus.value('jgroups_site_status{member="B",site="SFO",status="UP"}') == 1, "SFO is UP")
        began = time.time()
        sites.nyc["B"].command(f"flood {MESSAGES} 100 500")
        time.sleep(3)                                        # in the middle of the flood
        sites.nyc["A"].kill()
        acknowledged = 'jgroups_site_acknowledged_messages_total{member="B",site="SFO"}'
        until(lambda: prometheus.value(acknowledged) == MESSAGES, "SFO has acknowledged all")
        until(lambda: "JgroupsMemberDown" in prometheus.firing(), "the dead relay is alarmed")
        firing = prometheus.firing()
        assert {name: labels.get("instance") for name, labels in firing.items()} == {"JgroupsMemberDown": "A"}
        broken = prometheus.ask("query_range", start=str(began), end=str(time.time()), step="1", query=(
            "jgroups_site_numbered_messages_total != jgroups_site_acknowledged_messages_total "
            "+ jgroups_site_lost_messages_total + jgroups_site_held_messages"))
        assert broken["result"] == [], "numbered = acknowledged + lost + held, in every scrape"
        assert prometheus.value('jgroups_site_lost_messages_total{member="B",site="SFO"}') == 0
        assert prometheus.value('jgroups_member_relay{member="B"}') == 1
        took_over = 'jgroups_relay_failover_seconds_count{member="B"}'
        until(lambda: prometheus.value(took_over) == 1, "the take-over is in the histogram")
        assert prometheus.value('jgroups_relay_failovers_total{member="B"}') == 1
        silent = [expression for expression in dashboard_expressions() if not prometheus.ask(
            "query_range", query=expression, start=str(began), end=str(time.time()), step="1")["result"]]
        assert silent == [], "each expression of the dashboard has shown something in this run"


def dashboard_expressions() -> list[str]:
    """Those of the dashboard, with all clusters and members chosen."""
    return [target["expr"].replace("$cluster", ".+").replace("$member", ".+")
            for panel in dashboard()["panels"] for target in panel["targets"]]
