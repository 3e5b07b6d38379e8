"""The Grafana dashboard of members that Prometheus scrapes, made of a table of panels."""
from __future__ import annotations

from typing import Any

import attrs

CHOSEN = 'cluster=~"$cluster",member=~"$member"'
WIDTH, HEIGHT, COLUMNS = 8, 7, 3            # of a panel, in Grafana's units of which a row has 24


@attrs.frozen
class Panel:
    """expressions: PromQL -> legend. unit: as Grafana names it. kind: "timeseries" or "stat"."""

    title: str
    expressions: dict[str, str]
    unit: str = "short"
    kind: str = "timeseries"


PANELS = (
    Panel("Members in the view", {f"jgroups_view_members{{{CHOSEN}}}": "{{member}}"}),
    Panel("Status of other sites", {f"jgroups_site_status{{{CHOSEN}}} == 1": "{{site}} at {{member}}: {{status}}"}),
    Panel("Declared lost", {f"sum(jgroups_site_lost_messages_total{{{CHOSEN}}})": "for other sites",
                            f"sum(jgroups_relay_lost_messages_total{{{CHOSEN}}})": "of other sites"}, kind="stat"),
    Panel("Numbered and acknowledged, per site", {
        f"rate(jgroups_site_numbered_messages_total{{{CHOSEN}}}[1m])": "{{site}} numbered at {{member}}",
        f"rate(jgroups_site_acknowledged_messages_total{{{CHOSEN}}}[1m])": "{{site}} acknowledged at {{member}}"},
        "ops"),
    Panel("Held for other sites", {f"jgroups_site_held_messages{{{CHOSEN}}}": "{{site}} at {{member}}"}),
    Panel("Age of the oldest held message", {
        f"jgroups_site_oldest_held_seconds{{{CHOSEN}}}": "{{site}} at {{member}}"}, "s"),
    Panel("Delay until other sites acknowledge", {
        f"histogram_quantile({share}, sum by (le, site) (rate(jgroups_site_delay_seconds_bucket{{{CHOSEN}}}[5m])))":
        f"{{{{site}}}}, {name}" for share, name in ((0.5, "half"), (0.99, "99 of 100"))}, "s"),
    Panel("Take-overs of relays, mean duration", {
        f"increase(jgroups_relay_failover_seconds_sum{{{CHOSEN}}}[5m]) "
        f"/ (increase(jgroups_relay_failover_seconds_count{{{CHOSEN}}}[5m]) > 0)": "by {{member}}"}, "s"),
    Panel("Memory of the hold", {f"jgroups_held_bytes{{{CHOSEN}}}": "{{member}}",
                                 f"jgroups_hold_limit_bytes{{{CHOSEN}}}": "limit of {{member}}"}, "bytes"),
    Panel("Messages of the application", {
        f"rate(jgroups_messages_queued_total{{{CHOSEN}}}[1m])": "sent by {{member}}",
        f"rate(jgroups_messages_delivered_total{{{CHOSEN}}}[1m])": "delivered to {{member}}"}, "ops"),
    Panel("Network", {
        f"rate(jgroups_network_sent_bytes_total{{{CHOSEN}}}[1m])": "{{member}} sent, {{net}}",
        f"rate(jgroups_network_received_bytes_total{{{CHOSEN}}}[1m])": "{{member}} received, {{net}}"}, "Bps"),
    Panel("Queues", {f"jgroups_queue_bytes{{{CHOSEN}}}": "{{queue}} of {{member}}"}, "bytes"),
    Panel("Requested again, sent again, dropped", {
        f"rate(jgroups_retransmit_requests_total{{{CHOSEN}}}[1m])": "{{member}} requests, {{net}}",
        f"rate(jgroups_messages_resent_total{{{CHOSEN}}}[1m])": "{{member}} sent again, {{net}}",
        f"rate(jgroups_frames_dropped_total{{{CHOSEN}}}[1m])": "{{member}} dropped: {{reason}}"}, "ops"),
    Panel("Views, merges, suspicions", {
        f"increase(jgroups_views_installed_total{{{CHOSEN}}}[5m])": "views of {{member}}",
        f"increase(jgroups_merges_total{{{CHOSEN}}}[5m])": "merges led by {{member}}",
        f"increase(jgroups_suspicions_total{{{CHOSEN}}}[5m])": "confirmed by {{member}}"}),
    Panel("Loop silence, processor time", {
        f"jgroups_loop_silence_seconds{{{CHOSEN}}}": "silence of {{member}}",
        f"rate(process_cpu_seconds_total{{{CHOSEN}}}[1m])": "processors of {{member}}"}, "s"),
)


def dashboard() -> dict[str, Any]:
    """The dashboard, as Grafana imports it; variables: data source, cluster, member."""
    source = {"type": "prometheus", "uid": "${datasource}"}
    panels = [{
        "id": number + 1, "title": panel.title, "type": panel.kind, "datasource": source,
        "gridPos": {"x": number % COLUMNS * WIDTH, "y": number // COLUMNS * HEIGHT, "w": WIDTH, "h": HEIGHT},
        "fieldConfig": {"defaults": {"unit": panel.unit}, "overrides": []},
        "targets": [{"refId": chr(ord("A") + at), "datasource": source, "expr": expression, "legendFormat": legend}
                    for at, (expression, legend) in enumerate(panel.expressions.items())],
    } for number, panel in enumerate(PANELS)]
    variables: list[dict[str, Any]] = [{"name": "datasource", "type": "datasource", "query": "prometheus"}]
    variables += [{"name": name, "type": "query", "datasource": source, "multi": True, "includeAll": True,
                   "refresh": 2, "query": f"label_values(jgroups_member_info, {name})"}
                  for name in ("cluster", "member")]
    return {"title": "jgroups_py", "uid": "jgroups-py", "schemaVersion": 39, "version": 1, "editable": True,
            "refresh": "10s", "time": {"from": "now-30m", "to": "now"}, "tags": ["jgroups"],
            "templating": {"list": variables}, "panels": panels}
