"""Has `mypy --strict` judge a program of which some lines are wrong on purpose."""
from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
WRONG = re.compile(r"^\S+?:(\d+): error: ", re.MULTILINE)


def check_wrong_lines(program: str, path: Path) -> None:
    """mypy refuses exactly the lines that end in "# wrong". path: where the program is written."""
    path.write_text(program)
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "--config-file=", str(path)],
        capture_output=True, text=True, cwd=ROOT, timeout=300, check=False)
    wrong = [number for number, line in enumerate(program.splitlines(), 1) if line.endswith("# wrong")]
    found = sorted({int(number) for number in WRONG.findall(checked.stdout)})
    assert found == wrong, checked.stdout + checked.stderr
