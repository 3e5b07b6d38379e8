"""The report as a page: what it counts, links and compares, and that nothing of it comes from elsewhere."""
from __future__ import annotations

import json
import re
from html.parser import HTMLParser

import pyarrow as pa
import pytest

from jgroups_py.pipeline.audit.judge import FINDINGS, PAIRS, SENT, sent
from jgroups_py.pipeline.job import JobOptions
from jgroups_py.pipeline.jobs import JOBS
from jgroups_py.pipeline.output import document
from jgroups_py.pipeline.report import page
from jgroups_py.pipeline.report.svg import NARROW
from tests.unit.pipeline.made import archive, folded
from tests.unit.pipeline.test_skipped import A, B, recorder, state
from tests.unit.pipeline.test_timeline_traffic import tables

ALL = ("lag", "timeline", "traffic")


class Parts(HTMLParser):
    """ids, links, the texts of scripts, cells of cards, and the attributes that could load something."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.loads: list[str] = []
        self.cards: dict[str, str] = {}
        self.kinds: list[str | None] = []
        self.feed(text)
        self.cards = dict(re.findall(r'<div class="card"><b class="[^"]*">([^<]*)</b><span>([^<]*)</span>', text))
        self.cards = {name: value for value, name in self.cards.items()}

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.ids += [found["id"]] if "id" in found else []
        self.links += [found["href"]] if tag == "a" else []
        self.loads += [found[name] for name in ("src", "href", "data", "action") if name in found and tag != "a"]
        self.kinds += [found.get("type")] if tag == "script" else []


@pytest.fixture(scope="module")
def faulty(tmp_path_factory):
    """All tables of an archive with two faults of each kind."""
    folder = tmp_path_factory.mktemp("archive")
    archive(folder, messages=9000, faults=2)
    state = folded(folder)
    found = dict(JOBS["audit"].tables(state, JobOptions()))
    for job in ALL:
        found.update(tables(folder, job))
    return found


def test_expected_deliveries_and_sent_messages_are_told_apart(faulty):
    totals = document("audit", faulty)["totals"]
    counted = sum(line["messages"] for line in faulty["sent"].to_pylist())
    cards = Parts(page(faulty, "x")).cards
    assert cards["sent"] == f"{counted:,}" == f"{totals['sent']:,}"
    assert cards["expected"] == f"{totals['expected']:,}"
    assert totals["expected"] > 2 * totals["sent"], "most messages are for several members"


def test_a_hand_counted_case():
    """A sends 6 multicasts and delivers them itself; B misses the third one."""
    a, b = recorder(A), recorder(B)
    for seqno in range(1, 7):
        a("sent", A, seqno)
        a("delivered", A, seqno)
        if seqno != 3:
            b("delivered", A, seqno)
    spans = pa.concat_tables([state(rows, 1000) for rows in (a("stop"), b("stop"))])
    found = JOBS["audit"].tables(spans, JobOptions())
    assert [line["messages"] for line in found["sent"].to_pylist()] == [6]
    cards = Parts(page(found, "x")).cards
    assert {name: cards[name] for name in ("sent", "expected", "delivered", "lost")} == {
        "sent": "6", "expected": "12", "delivered": "11", "lost": "1"}


def test_messages_of_which_only_deliveries_are_recorded_count_as_sent(tmp_path):
    archive(tmp_path, messages=600)
    whole = folded(tmp_path)
    origin = next(line["origin"] for line in sent(whole).to_pylist())
    is_sent = [kind == "sent" and of == origin for kind, of in zip(
        whole["kind"].to_pylist(), whole["origin"].to_pylist(), strict=True)]
    without = whole.filter(pa.array([not each for each in is_sent]))
    before, after = ({(line["origin"], line["stream"], line["dest"]): line for line in sent(state).to_pylist()}
                     for state in (whole, without))
    for key in after:
        assert after[key]["messages"] == before[key]["messages"]
        assert after[key]["unrecorded"] == (after[key]["messages"] if key[0] == origin else 0)


def test_skipped_and_declared_losses_stand_apart_from_faults(faulty):
    text = page(faulty, "x")
    faults, rest = text.split("What did not arrive, without a fault")
    faults = faults[faults.index("<h2>Findings</h2>"):]
    for word, stands_in, stands_not_in in (("lost", faults, rest), ("duplicated", faults, rest),
                                           ("declared lost", rest, faults)):
        cell = f'<td class=l>{word}</td>'
        assert cell in stands_in, word
        assert cell not in stands_not_in, word
    number = re.search(r"Faults were found <small>([\d,]+) findings", text)
    kinds = [line["fault"] for line in faulty["findings"].to_pylist()]
    assert int(number[1].replace(",", "")) == len(kinds) - kinds.count("declared_lost") - kinds.count("skipped")


def test_each_link_leads_to_a_mark_or_to_the_guarantee_that_is_broken(faulty):
    parts = Parts(page(faulty, "x"))
    assert len(parts.links) > 20
    assert {link.removeprefix("#") for link in parts.links} <= set(parts.ids)
    assert len(parts.ids) == len(set(parts.ids)), "an id stands twice"
    assert {"guarantee-S5", "guarantee-R3", "finding-1"} <= set(parts.ids)


def test_findings_are_in_order_of_time(faulty):
    text = page(faulty, "x")
    times = re.findall(r'<a href="#finding-(\d+)">', text[:text.index("What did not arrive")])
    assert list(map(int, times)) == sorted(map(int, times))
    marks = [float(x) for x in re.findall(r'id="finding-\d+" class="at bad"><path d="M([\d.]+),', text)]
    assert marks == sorted(marks)


def test_each_direction_has_a_plot_of_its_own_with_one_scale_and_the_colour_of_its_sender(faulty):
    text = page(faulty, "x")
    plots = {name: json.loads(values) for name, values in re.findall(
        r'<figure class="plot" role="group" aria-label="Lag ([^"]*)">.*?<script type="application/json">(.*?)</script>',
        text)}
    sites = {line["origin_site"] for line in faulty["lag_summary"].to_pylist()}
    assert set(plots) == {f"{line['origin_site']} → {line['site']}" for line in faulty["lag_summary"].to_pylist()}
    assert len({(plot["low"], plot["high"], plot["stop"]) for plot in plots.values()}) == 1
    colours = {name: plot["lines"][0][0] for name, plot in plots.items()}
    assert {site: {colour for name, colour in colours.items() if name.startswith(f"{site} ")} for site in sites} == {
        site: {number} for number, site in enumerate(sorted(sites))}


def test_a_phone_gets_pictures_of_its_width(faulty):
    text = page(faulty, "x")
    assert text.count('class="on-narrow"') == text.count('class="on-wide"') > 4
    for picture in re.findall(r'<div class="on-narrow"><svg viewBox="0 0 (\d+) ', text):
        assert int(picture) == NARROW
    assert min(float(size) for size in re.findall(r"font-size:([\d.]+)px", text)) >= 11


def test_the_page_loads_nothing_and_runs_its_own_script_only(faulty):
    text = page(faulty, "x")
    parts = Parts(text)
    assert parts.loads == []
    assert parts.kinds.count(None) == 1
    assert set(parts.kinds) == {None, "application/json"}
    assert "default-src 'none'" in text
    assert " style=" not in text, "the policy refuses it"
    assert not re.search(r"\son\w+=", text.replace("on-", "")), "the policy refuses it"


def test_names_in_values_of_plots_cannot_end_their_script(tmp_path):
    name = "</script><script>alert(1)</script>"
    archive(tmp_path, messages=3000, sites=((name, ("A", "B")), ("SFO", ("D", "E"))))
    text = page({table: found for job in ALL for table, found in tables(tmp_path, job).items()}, "x")
    assert "alert(1)</script>" not in text
    assert Parts(text).kinds.count(None) == 1


def test_two_runs_are_compared_by_their_figures(faulty, tmp_path):
    archive(tmp_path, messages=3000)
    clean = dict(JOBS["audit"].tables(folded(tmp_path), JobOptions()))
    for job in ALL:
        clean.update(tables(tmp_path, job))
    text = page(faulty, "x", clean, "last <week>")
    part = text[text.index("<h2>Compared with last &lt;week&gt;</h2>"):]
    rows = {cells[0]: cells[1:] for cells in (re.findall(r"<td[^>]*>([^<]*)</td>", row)
                                              for row in part[:part.index("</table>")].split("<tr>")[2:])}
    assert rows["verdict"][:2] == ["faulty", "clean"]
    assert rows["lost"][1:] == ["0", "was 0"]
    here, there = (document("audit", each)["totals"]["expected"] for each in (faulty, clean))
    assert rows["expected"] == [f"{here:,}", f"{there:,}", f"{100 * (here - there) / there:+.3g} %"]
    routes = [f"{line['origin_site']} → {line['site']}" for line in faulty["lag_summary"].to_pylist()]
    assert {f"lag {route} p99" for route in routes} <= set(rows)


def test_a_run_without_an_audit_compares_what_it_has(faulty):
    traffic = {name: table for name, table in faulty.items() if name in ("throughput", "topics", "talkers", "sizes")}
    text = page(traffic, "x", traffic, "itself")
    assert "Compared with itself" in text
    assert "<td>=</td>" in text


def test_empty_tables_make_a_page():
    empty = {"pairs": PAIRS.empty_table(), "findings": FINDINGS.empty_table(), "sent": SENT.empty_table()}
    assert "</html>" in page(empty, "x")
