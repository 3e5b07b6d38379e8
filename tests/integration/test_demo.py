"""The demo as a person starts it: two sites, relays killed, everything once and in order; nothing is left behind."""
from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from time import monotonic, sleep

import pytest

from jgroups_py.cli import main
from jgroups_py.pipeline.audit.judge import judge, totals
from tests.unit.pipeline.made import folded

pytestmark = pytest.mark.real

LINES = 6000
SILENCE_S = 5.0                          # FD_ALL's patience: a shorter gap was noticed by a broken link
RATE = 600                               # so the stream takes ten seconds, whatever the machine does beside it
END_S = 600


def demo(*options: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-m", "jgroups_py", "demo", *options], stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True)


def workers_of(pid: int) -> list[int]:
    """The processes that the demo `pid` started and that still run."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except (OSError, IndexError):
                continue
            if parent == pid:
                found.append(int(entry.name))
    return found


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_bytes(b"".join(b"line %d of the file\n" % number for number in range(LINES)))
    return path


def test_relays_of_both_sites_are_killed_and_nothing_is_lost_doubled_or_out_of_order(text: Path, tmp_path: Path):
    process = demo("--json", "--no-audit", "--input", str(text), "--rate", str(RATE), "--out", str(tmp_path / "out"))
    out, errors = process.communicate(timeout=END_S)
    assert process.returncode == 0, f"{out[-3000:]}\n{errors[-3000:]}"
    result = json.loads(out)
    assert [incident["what"] for incident in result["incidents"]] == ["killed", "killed", "left"]
    assert {name: result["totals"][name] for name in ("lost", "duplicated", "out_of_order")} == {
        "lost": 0, "duplicated": 0, "out_of_order": 0}
    assert all(copy["identical"] for copy in result["copies"])
    assert result["archive"]["recorders"] == 7                # six members, one of them twice
    assert main(["archive", "verify", result["archive"]["directory"], "--complete"]) == 0
    pairs, findings = judge(folded(Path(result["archive"]["directory"])))         # the audit, without Spark
    assert findings.to_pylist() == []
    assert totals(pairs)["delivered"] > result["totals"]["received"]              # that of the killed, too
    assert len(result["copies"]) == 3
    assert result["answers"]["received"] == result["answers"]["sent"] > 0
    for incident in result["incidents"]:
        assert max(incident["longest_gap_s"].values()) < SILENCE_S, incident


@pytest.mark.long
def test_three_sites_replicate_without_kills(text: Path, tmp_path: Path):
    process = demo("--json", "--no-audit", "--no-kill", "--sites", "3", "--members", "2", "--input", str(text),
                   "--rate", "1500", "--out", str(tmp_path / "out"))
    out, errors = process.communicate(timeout=END_S)
    assert process.returncode == 0, f"{out[-3000:]}\n{errors[-3000:]}"
    result = json.loads(out)
    assert len(result["copies"]) == 6
    assert result["incidents"] == []


def test_ctrl_c_ends_the_demo_and_all_its_processes(text: Path, tmp_path: Path):
    process = demo("--no-audit", "--input", str(text), "--rate", "100", "--out", str(tmp_path / "out"))
    deadline = monotonic() + 120
    while len(workers_of(process.pid)) < 6:
        assert monotonic() < deadline, "the demo did not start its six members"
        sleep(0.1)
    workers = workers_of(process.pid)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=120)
    assert process.returncode == 130
    for pid in workers:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_an_input_that_is_not_there_is_wrong_use(tmp_path: Path):
    process = demo("--input", str(tmp_path / "missing.txt"))
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 2
    assert "missing.txt" in errors
