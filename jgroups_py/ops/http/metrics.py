"""The metrics of a member in the text format of Prometheus (0.0.4), made of a snapshot.

Names follow Prometheus' rules: base units, `_total` for what only grows, one quantity a name. Every series has the
labels `cluster` and `member`. The further labels (`net`, `queue`, `reason`, `state`, `status`) have values of closed
lists, and `site` those sites that RELAY knows. No label has an address, a view or the text of an error.
"""
from __future__ import annotations

import os
import resource
from collections.abc import Iterable, Mapping
from pathlib import Path

import attrs

from jgroups_py.model.counters import BEYOND, BOUNDS_MS
from jgroups_py.ops.http.snapshot import MemberReport, Snapshot

COUNTER, GAUGE, HISTOGRAM = "counter", "gauge", "histogram"
STATES = ("OPEN", "CONNECTING", "CONNECTED", "CLOSED")
SITE_STATUSES = ("UP", "DOWN", "OFFLINE")
BRIDGE = "bridge."
TRANSPORTS = ("UDP", "TCP", "MEMBERLIST", "INFLUX")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")

Labels = Mapping[str, str]
Series = tuple[Labels, float]


@attrs.frozen
class Metric:
    """A name, its type, its help text, and its values.

    histogram: in place of series, those of a histogram, each with what is appended to the name.
    """

    name: str
    kind: str
    doc: str
    series: tuple[Series, ...]
    histogram: tuple[tuple[str, Labels, float], ...] = ()


@attrs.frozen(kw_only=True)
class MemberFacts:
    """Facts that do not change while an endpoint runs. started_at: seconds since 1970."""

    member: str
    site: str | None
    transport: str
    version: str
    wire: int
    started_at: float


def render(metrics: Iterable[Metric], common: Labels) -> bytes:
    """As Prometheus reads it. A metric without a value is left out; so is its head. common: labels of every series."""
    shared = _labels(common)
    lines: list[str] = []
    for metric in metrics:
        name = metric.name
        values = metric.histogram or [("", labels, value) for labels, value in metric.series]
        if values:
            lines += [f"# HELP {name} {metric.doc}", f"# TYPE {name} {metric.kind}"]
            lines += [f"{name}{end}{{{shared},{_labels(labels)}}} {_number(value)}" if labels else
                      f"{name}{end}{{{shared}}} {_number(value)}" for end, labels, value in values]
    return ("\n".join(lines) + "\n").encode()


def member_metrics(facts: MemberFacts, snapshot: Snapshot) -> list[Metric]:
    """All metrics of a member, as of a snapshot."""
    found = [
        Metric("jgroups_member_info", GAUGE, "1; what this member is.", (({
            "site": facts.site or "", "version": facts.version, "wire": str(facts.wire), "transport": facts.transport,
            "uuid": "" if snapshot.report is None else snapshot.report.uuid}, 1),)),
        Metric("jgroups_member_state", GAUGE, "1 for the channel's state, 0 for the others.",
               tuple(({"state": state}, float(state == snapshot.state)) for state in STATES)),
        Metric("jgroups_member_start_time_seconds", GAUGE, "When the endpoint was opened, since 1970.",
               (({}, facts.started_at),)),
        Metric("jgroups_snapshot_age_seconds", GAUGE, "Age of these figures; above 0 while the loop does not answer.",
               (({}, snapshot.stale_seconds),)),
        Metric("jgroups_loop_silence_seconds", GAUGE, "For how long the member's loop has not answered.",
               (({}, round(snapshot.silent_seconds, 3)),)),
    ]
    report = snapshot.report
    if report is not None:
        found += [*_group(report), *_traffic(report), *_queues(report), *_sites(report)]
    return found + _process()


def _group(report: MemberReport) -> list[Metric]:
    stats = report.stats
    gms, suspicion = stats.get("GMS"), stats.get("VERIFY_SUSPECT")
    return [
        Metric("jgroups_member_coordinator", GAUGE, "1 at the coordinator of the view.",
               (({}, float(report.coordinator)),)),
        Metric("jgroups_view_members", GAUGE, "Members of the view.", (({}, float(len(report.members["members"]))),)),
        _counted("jgroups_views_installed_total", "Views installed.", gms, "views_installed"),
        Metric("jgroups_view_change_seconds", HISTOGRAM, "View changes, from the stop of all messages to the view.", (),
               () if "NAKACK" not in stats else histogram_of(stats["NAKACK"], "frozen", {})),
        _counted("jgroups_merges_total", "Merges led by this member.", gms, "merges_led"),
        _counted("jgroups_suspicions_total", "Suspicions confirmed by this member.", suspicion, "confirmed"),
        _counted("jgroups_suspicions_refuted_total", "Suspicions that the member refuted.", suspicion, "refuted"),
    ]


def _traffic(report: MemberReport) -> list[Metric]:
    stats, nets = report.stats, _by_net(report.stats)
    transports = {net: next((layers[name] for name in TRANSPORTS if name in layers), {})
                  for net, layers in nets.items()}

    def of_nets(name: str, doc: str, figure: str) -> Metric:
        return Metric(name, COUNTER, doc, tuple(({"net": net}, figures.get(figure, 0.0))
                                                for net, figures in transports.items()))

    def of_layers(name: str, doc: str, layers: tuple[str, ...], figure: str) -> Metric:
        return Metric(name, COUNTER, doc, tuple(
            ({"net": net}, sum(found.get(layer, {}).get(figure, 0) for layer in layers))
            for net, found in nets.items()))
    channel = stats.get("channel")
    dropped = [({"net": net, "reason": name.removesuffix("_dropped")}, number)
               for net, figures in transports.items() for name, number in figures.items() if name.endswith("_dropped")]
    return [
        _counted("jgroups_messages_queued_total", "Messages that the application sent.", channel, "messages_queued"),
        _counted("jgroups_messages_delivered_total", "Messages given to the receiver.", channel, "delivered"),
        _counted("jgroups_payload_sent_bytes_total", "Payload bytes that the application sent.", channel,
                 "payload_bytes_sent"),
        _counted("jgroups_payload_delivered_bytes_total", "Payload bytes given to the receiver.", channel,
                 "delivered_bytes"),
        of_nets("jgroups_frames_sent_total", "Frames sent.", "frames_sent"),
        of_nets("jgroups_frames_received_total", "Frames received.", "frames_received"),
        of_nets("jgroups_network_sent_bytes_total", "Bytes of frames sent.", "bytes_sent"),
        of_nets("jgroups_network_received_bytes_total", "Bytes of frames received.", "bytes_received"),
        Metric("jgroups_frames_dropped_total", COUNTER, "Frames and messages dropped by the transport.",
               tuple(dropped)),
        of_layers("jgroups_retransmit_requests_total", "Requests for missing messages.", ("NAKACK", "UNICAST"),
                  "requests_sent"),
        of_layers("jgroups_messages_resent_total", "Messages sent again.", ("NAKACK", "UNICAST"), "retransmitted"),
        Metric("jgroups_duplicates_total", COUNTER, "Messages that came more than once.", tuple(
            ({"net": net}, found.get("NAKACK", {}).get("duplicates_dropped", 0)
             + found.get("UNICAST", {}).get("duplicates", 0)) for net, found in nets.items())),
        of_layers("jgroups_flow_blocked_total", "How often sending waited for a slow receiver.", ("MFC", "UFC", "FLOW"),
                  "blocked"),
    ]


def _queues(report: MemberReport) -> list[Metric]:
    channel, nakack = report.stats.get("channel", {}), report.stats.get("NAKACK", {})
    queues = {"send": channel.get("send_queue_bytes"), "receiver": channel.get("backlog_bytes"),
              "kept_back": channel.get("kept_back_bytes"), "unstable": nakack.get("kept_bytes")}
    return [
        Metric("jgroups_queue_bytes", GAUGE, "Payload bytes that wait: to be sent, for the receiver, for credit or a "
               "view, until all members have them.",
               tuple(({"queue": queue}, number) for queue, number in queues.items() if number is not None)),
        _counted("jgroups_receiver_errors_total", "Exceptions raised by the receiver.", channel, "receiver_exceptions"),
    ]


def _sites(report: MemberReport) -> list[Metric]:
    sites, relay = report.sites, report.stats.get("RELAY")
    if sites is None or relay is None:
        return []

    def of_sites(name: str, kind: str, doc: str, figure: str) -> Metric:
        return Metric(name, kind, doc, tuple(({"site": site}, entry[figure]) for site, entry in sites["sites"].items()))
    statuses = [({"site": site, "status": status}, float(status == entry["status"]))
                for site, entry in sites["sites"].items() for status in SITE_STATUSES]
    return [
        Metric("jgroups_member_relay", GAUGE, "1 at the relay of the site.", (({}, float(sites["is_relay"])),)),
        Metric("jgroups_site_status", GAUGE, "1 for the site's status at this member, 0 for the others.",
               tuple(statuses)),
        of_sites("jgroups_site_numbered_messages_total", COUNTER, "Messages meant for the site.", "numbered"),
        of_sites("jgroups_site_acknowledged_messages_total", COUNTER, "Of these, acknowledged by it.", "acknowledged"),
        of_sites("jgroups_site_lost_messages_total", COUNTER, "Of these, declared lost for it.", "lost"),
        of_sites("jgroups_site_held_messages", GAUGE, "Of these, held for it.", "held"),
        of_sites("jgroups_site_oldest_held_seconds", GAUGE, "Age of the oldest of these.", "oldest_held_seconds"),
        Metric("jgroups_site_delay_seconds", HISTOGRAM, "As relay: from when a batch was held to its acknowledgement.",
               (), tuple(sample for site in sites["sites"] for sample in histogram_of(relay, f"delay_{site}",
                                                                                      {"site": site}))),
        _counted("jgroups_relay_failovers_total", "Take-overs: this member became the relay in place of another one.",
                 relay, "failovers"),
        Metric("jgroups_relay_failover_seconds", HISTOGRAM, "Take-overs, from the view that made this member the relay "
               "until messages cross to every site that is UP.", (), histogram_of(relay, "failover", {})),
        Metric("jgroups_held_bytes", GAUGE, "Memory of what is held for other sites.", (({}, sites["held_bytes"]),)),
        Metric("jgroups_hold_limit_bytes", GAUGE, "Its limit.", (({}, sites["hold_limit_bytes"]),)),
        _counted("jgroups_relay_lost_messages_total", "Messages of other sites that this member will never get.", relay,
                 "lost"),
        _counted("jgroups_unreachable_total", "Unicasts to other sites that are not known to be delivered.", relay,
                 "unreachable"),
        Metric("jgroups_journal_bytes", GAUGE, "Size of the journal of what is held.",
               (({}, relay["journal_bytes"]),) if "journal_bytes" in relay else ()),
        Metric("jgroups_journal_failing", GAUGE, "1 while the journal cannot be written.",
               (({}, relay["journal_fails"]),) if "journal_fails" in relay else ()),
    ]


def _process() -> list[Metric]:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    found = [Metric("process_cpu_seconds_total", COUNTER, "Processor time of this process.",
                    (({}, round(usage.ru_utime + usage.ru_stime, 3)),))]
    try:
        pages = Path("/proc/self/statm").read_text().split()
        descriptors = len(os.listdir("/proc/self/fd"))
    except OSError:
        return found                                         # a system without /proc
    return [
        *found,
        Metric("process_virtual_memory_bytes", GAUGE, "Virtual memory.", (({}, int(pages[0]) * PAGE_BYTES),)),
        Metric("process_resident_memory_bytes", GAUGE, "Resident memory.", (({}, int(pages[1]) * PAGE_BYTES),)),
        Metric("process_open_fds", GAUGE, "Open file descriptors.", (({}, descriptors),)),
        Metric("process_max_fds", GAUGE, "Their limit.", (({}, resource.getrlimit(resource.RLIMIT_NOFILE)[0]),)),
    ]


def _by_net(stats: Mapping[str, Mapping[str, float]]) -> dict[str, dict[str, Mapping[str, float]]]:
    """"local" and, at a relay, "bridge" -> the layers of that stack."""
    nets: dict[str, dict[str, Mapping[str, float]]] = {"local": {}}
    for name, figures in stats.items():
        if name.startswith(BRIDGE):
            nets.setdefault("bridge", {})[name.removeprefix(BRIDGE)] = figures
        else:
            nets["local"][name] = figures
    return nets


def histogram_of(figures: Mapping[str, float], name: str, labels: Labels) -> tuple[tuple[str, Labels, float], ...]:
    """The series of what model.counters.observe counted under a name, with bounds in seconds."""
    found: list[tuple[str, Labels, float]] = []
    number = 0.0
    for bound in (*BOUNDS_MS, BEYOND):
        number += figures.get(f"{name}_within_{bound}", 0)
        bound_s = "+Inf" if bound == BEYOND else f"{float(bound) / 1000:g}"
        found.append(("_bucket", {**labels, "le": bound_s}, number))
    return (*found, ("_sum", labels, figures.get(f"{name}_us", 0) / 1e6), ("_count", labels, number))


def _counted(name: str, doc: str, figures: Mapping[str, float] | None, figure: str) -> Metric:
    """A counter of a protocol: 0 until it counts first; absent without the protocol (None)."""
    return Metric(name, COUNTER, doc, () if figures is None else (({}, figures.get(figure, 0)),))


def _labels(labels: Labels) -> str:
    return ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _number(value: float) -> str:
    """
    >>> _number(3.0), _number(1795410982.214), _number(True)
    ('3', '1795410982.214', '1')
    """
    return str(int(value)) if value == int(value) else repr(float(value))
