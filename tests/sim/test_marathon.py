"""The marathon's bookkeeping: shares, pieces, a progress file that survives being stopped."""
from __future__ import annotations

from collections import Counter
from pathlib import Path

import attrs
import pytest

from jgroups_py.cli.sim import Sum
from tests.sim import marathon
from tests.sim.marathon import SHARES, Piece, Progress, add_up, pieces, table


def line_of(piece: Piece, faults: int = 2, failed: int = 0) -> dict[str, object]:
    """A line as `work_off` writes it."""
    total = Sum(seeds=piece.stop - piece.first, failed=failed, violations=failed, sim_s=36.0, cpu_s=3.6, faults=faults,
                by_kind=Counter({"crash": faults}))
    return {**attrs.asdict(piece), "sum": attrs.asdict(total), "failed": []}


def test_pieces_cover_every_profile_by_its_share_without_gap_or_overlap() -> None:
    found: dict[str, int] = dict.fromkeys(SHARES, 0)
    for piece in pieces(10_000):
        assert piece.first == found[piece.profile] < piece.stop
        found[piece.profile] = piece.stop
    assert found == {profile: 10_000 * share // sum(SHARES.values()) for profile, share in SHARES.items()}


def test_what_is_done_is_done_after_a_restart_and_a_torn_line_is_not(tmp_path: Path) -> None:
    path = tmp_path / "progress"
    progress = Progress(path)
    progress.add(line_of(Piece("group", 0, 5)))
    progress.add(line_of(Piece("relay", 0, 5)))
    path.write_text(path.read_text()[:-20])
    assert Progress(path).has(Piece("group", 0, 5))
    assert not Progress(path).has(Piece("relay", 0, 5))


def test_pieces_need_not_be_cut_as_they_were(tmp_path: Path) -> None:
    progress = Progress(tmp_path / "progress")
    for piece in (Piece("group", 0, 5), Piece("group", 9, 12), Piece("group", 5, 8)):
        progress.add(line_of(piece))
    assert progress.has(Piece("group", 2, 8))
    assert not progress.has(Piece("group", 2, 9))
    assert not progress.has(Piece("group", 11, 13))


def test_tidied_it_says_the_same_in_fewer_lines(tmp_path: Path) -> None:
    path = tmp_path / "progress"
    progress = Progress(path)
    for piece in (Piece("group", 0, 5), Piece("group", 9, 12), Piece("group", 5, 8), Piece("relay", 8, 9)):
        progress.add(line_of(piece))
    progress.add(line_of(Piece("group", 4, 6)))                # once more: counts once
    before = list(table(add_up(line for lines in progress.lines.values() for line in lines)))
    progress.tidy()
    assert len(path.read_text().splitlines()) == 3
    assert list(table(add_up(line for lines in Progress(path).lines.values() for line in lines))) == before
    assert before[-3].split()[:2] == ["all", "12"]


def test_what_other_sources_did_does_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Progress(tmp_path / "progress").add(line_of(Piece("group", 0, 5)))
    monkeypatch.setattr(marathon, "digest_of_sources", lambda profile: f"changed {profile}")
    assert not Progress(tmp_path / "progress").has(Piece("group", 0, 5))


def test_the_table_adds_up_by_profile_and_in_all(tmp_path: Path) -> None:
    progress = Progress(tmp_path / "progress")
    for piece in (Piece("group", 0, 5), Piece("group", 5, 8), Piece("relay", 0, 1)):
        progress.add(line_of(piece, failed=piece.profile == "relay"))
    again = Progress(tmp_path / "progress")
    rows = [row.split() for row in table(add_up(line for lines in again.lines.values() for line in lines))]
    assert rows[1][:4] == ["group", "8", "0", "0"]
    assert rows[2][:4] == ["relay", "1", "1", "1"]
    assert rows[3][:2] == ["all", "9"]
    assert rows[3][5] == "6"
    assert rows[4] == ["faults", "by", "kind:", "crash", "6"]
