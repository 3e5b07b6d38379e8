"""The marathon's bookkeeping: shares, pieces, a progress file that survives being stopped."""
from __future__ import annotations

from collections import Counter
from pathlib import Path

import attrs
import pytest

from jgroups_py.cli.sim import Sum
from jgroups_py.simulator.profiles import PROFILES
from tests.simulator import marathon
from tests.simulator.marathon import SHARES, Piece, Progress, add_up, has_sites, pieces, shares, table


def line_of(piece: Piece, faults: int = 2, failed: int = 0) -> dict[str, object]:
    """A line as `work_off` writes it."""
    total = Sum(seeds=piece.stop - piece.first, failed=failed, violations=failed, sim_s=36.0, cpu_s=3.6, faults=faults,
                by_kind=Counter({"crash": faults}))
    return {**attrs.asdict(piece), "with_sites": total.seeds, "sum": attrs.asdict(total), "failed": []}


def rows_of(progress: Progress) -> list[str]:
    """The closing lines."""
    lines = [line for found in progress.lines.values() for line in found]
    return list(table(add_up(lines), {name: sum(line["with_sites"] for line in found)
                                      for name, found in progress.lines.items()}))


@pytest.mark.parametrize(("sites", "least"), [(40_000, 1_300), (100_000, 3_400)])
def test_so_many_seeds_have_sites_and_no_profile_with_sites_has_few(sites: int, least: int) -> None:
    found = shares(sites)
    assert set(found) == set(PROFILES)
    with_sites = [name for name in found if has_sites(name, 0)]
    assert {"relay", "topics", "site-crash", "interleavings"} <= set(with_sites)
    assert sum(found[name] for name in with_sites) == sites
    assert min(found[name] for name in with_sites) >= least
    assert found["group"] == found["replicas"] == 5_000
    assert all(found[name] == 500 for name in ("flow", "swim", "swim-group"))


def test_a_new_profile_has_its_share_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    class Brandnew(PROFILES["relay"]):                         # type: ignore[misc, name-defined]
        name = "brandnew"

    monkeypatch.setitem(PROFILES, "brandnew", Brandnew)
    found = shares()
    with_sites = sum(has_sites(name, 0) for name in found)
    assert found["brandnew"] >= min(1_500, 40_000 // with_sites)
    assert sum(seeds for name, seeds in found.items() if has_sites(name, 0)) == 40_000


def test_pieces_cover_every_profile_by_its_share_without_gap_or_overlap() -> None:
    found: dict[str, int] = dict.fromkeys(SHARES, 0)
    for piece in pieces(SHARES):
        assert piece.first == found[piece.profile] < piece.stop
        found[piece.profile] = piece.stop
    assert found == SHARES


@pytest.mark.long
def test_a_piece_counts_its_seeds_with_two_or_more_sites() -> None:
    assert [marathon.work_off(Piece(profile, 0, 2))["with_sites"] for profile in ("relay", "group")] == [2, 0]


@pytest.mark.long
def test_what_is_done_is_done_after_a_restart_and_a_torn_line_is_not(tmp_path: Path) -> None:
    path = tmp_path / "progress"
    progress = Progress(path)
    progress.add(line_of(Piece("group", 0, 5)))
    progress.add(line_of(Piece("relay", 0, 5)))
    path.write_text(path.read_text()[:-20])
    assert Progress(path).has(Piece("group", 0, 5))
    assert not Progress(path).has(Piece("relay", 0, 5))


@pytest.mark.long
def test_pieces_need_not_be_cut_as_they_were(tmp_path: Path) -> None:
    progress = Progress(tmp_path / "progress")
    for piece in (Piece("group", 0, 5), Piece("group", 9, 12), Piece("group", 5, 8)):
        progress.add(line_of(piece))
    assert progress.has(Piece("group", 2, 8))
    assert not progress.has(Piece("group", 2, 9))
    assert not progress.has(Piece("group", 11, 13))


@pytest.mark.long
def test_the_tidied_record_has_the_same_sums_in_fewer_lines(tmp_path: Path) -> None:
    path = tmp_path / "progress"
    progress = Progress(path)
    for piece in (Piece("group", 0, 5), Piece("group", 9, 12), Piece("group", 5, 8), Piece("relay", 8, 9)):
        progress.add(line_of(piece))
    progress.add(line_of(Piece("group", 4, 6)))                # once more: counts once
    before = rows_of(progress)
    progress.tidy()
    assert len(path.read_text().splitlines()) == 3
    assert rows_of(Progress(path)) == before
    assert before[-3].split()[:2] == ["all", "12"]


@pytest.mark.long
def test_what_other_sources_did_does_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Progress(tmp_path / "progress").add(line_of(Piece("group", 0, 5)))
    monkeypatch.setattr(marathon, "digest_of_sources", lambda profile: f"changed {profile}")
    assert not Progress(tmp_path / "progress").has(Piece("group", 0, 5))


@pytest.mark.long
def test_the_table_adds_up_by_profile_and_in_all(tmp_path: Path) -> None:
    progress = Progress(tmp_path / "progress")
    for piece in (Piece("group", 0, 5), Piece("group", 5, 8), Piece("relay", 0, 1)):
        progress.add(line_of(piece, failed=piece.profile == "relay"))
    again = Progress(tmp_path / "progress")
    rows = [row.split() for row in rows_of(again)]
    assert rows[1][:5] == ["group", "8", "8", "0", "0"]
    assert rows[2][:5] == ["relay", "1", "1", "1", "1"]
    assert rows[3][:2] == ["all", "9"]
    assert rows[3][6] == "6"
    assert rows[4] == ["faults", "by", "kind:", "crash", "6"]
