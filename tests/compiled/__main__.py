"""Builds the package with compiled modules in a temporary folder, and compares it there with its own source.

    python -m tests.compiled [--keep]

The tests of units and of the wire (golden bytes) run compiled; seeds of the simulator have the same histories, hash for
hash; hostile frames find nothing; and three processes, one of which uses the source, form a group over sockets.
"""
from __future__ import annotations

import argparse
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
COPIED = ("jgroups_py", "stacks", "tests", "docs", "design", "examples", "benchmarks", "demo", "setup.py", "setup.cfg",
          "pyproject.toml", "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "tox.ini")
SEEDS = {"group": "0:40", "relay": "0:20", "mqtt": "0:6", "relay-storm": "0:10", "order": "0:20", "states": "0:10",
         "sealed": "0:6", "hostile": "0:4", "replicas": "0:6", "topics": "0:6", "swim-group": "0:6"}
TESTED = ("tests/unit/test_batch.py", "tests/unit/test_routes.py", "tests/unit/test_stack.py", "tests/unit/windows",
          "tests/unit/protocols", "tests/unit/relay", "tests/unit/channel", "tests/wire", "tests/compiled",
          "tests/scenarios")

SUBCLASSES = "tests/unit/test_routes.py::test_a_lone_batch_makes_one_hop_past_layers_that_do_not_take_it"
"""It counts hops by a class of its own that extends Routes, which cannot be extended where it is compiled."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keep", action="store_true", help="keep the folder")
    keep = parser.parse_args().keep
    folder = Path(tempfile.mkdtemp(prefix="jgroups-compiled-"))
    try:
        build(folder)
        tell("built; comparing histories")
        compare_histories(folder)
        tell("three members, one of them not compiled")
        mixed_group(folder)
        tell("hostile frames")
        run(folder, "-m", "tests.fuzz", "frames", "--iterations", "4000", "--seed", "1")
        tell("tests")
        run(folder, "-m", "pytest", "-q", "-n", "0", *TESTED, f"--deselect={SUBCLASSES}")
    finally:
        if keep:
            tell(str(folder))
        else:
            shutil.rmtree(folder)


def tell(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def build(folder: Path) -> None:
    """The package with extension modules beside their sources."""
    for name in COPIED:
        source, to = ROOT / name, folder / name
        if source.is_dir():
            shutil.copytree(source, to, ignore=shutil.ignore_patterns("__pycache__", "*.so", "build"))
        else:
            shutil.copy(source, to)
    run(folder, "setup.py", "-q", "build_ext", "--inplace", JGROUPS_COMPILE="1")


def environment(folder: Path, **added: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(folder), "JGROUPS_PURE": "0", **added}


def run(folder: Path, *arguments: str, **added: str) -> str:
    """What Python prints, run in the folder; ends this program if it fails."""
    done = subprocess.run([sys.executable, *arguments], cwd=folder, env=environment(folder, **added),
                          stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        sys.exit(f"{done.stdout[-6000:]}\n{' '.join(arguments)}: status {done.returncode}")
    return done.stdout


def histories(folder: Path, profile: str, seeds: str, pure: bool) -> dict[int, tuple[str, int, int]]:
    """Seed -> digest of its history, steps, frames."""
    printed = run(folder, "-m", "jgroups_py", "sim", "--profile", profile, "--seeds", seeds, "--json",
                  JGROUPS_PURE=str(int(pure)))
    runs = [json.loads(line) for line in printed.splitlines()]
    return {each["seed"]: (each["digest"], each["events"], each["frames"]) for each in runs if "seed" in each}


def compare_histories(folder: Path) -> None:
    for profile, seeds in SEEDS.items():
        compiled, pure = (histories(folder, profile, seeds, each) for each in (False, True))
        first, stop = map(int, seeds.split(":"))
        assert len(pure) == stop - first, f"{profile}: {len(pure)} seeds were run of {seeds}"
        different = [seed for seed in pure if compiled.get(seed) != pure[seed]]
        if different:
            sys.exit(f"{profile}: compiled modules give other histories than their source at seeds {different}")
        tell(f"  {profile}: {len(pure)} histories are equal")


def mixed_group(folder: Path) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    members = [subprocess.Popen(
        [sys.executable, "-m", "tests.compiled.member", "mixed", port, name], cwd=folder,
        env=environment(folder, JGROUPS_PURE=pure), stdout=subprocess.PIPE, text=True)
        for name, pure in (("A", "0"), ("B", "1"), ("C", "0"))]
    printed = [member.communicate()[0].strip() for member in members]
    tell("  " + "\n  ".join(printed))
    assert [f"compiled={each}" in line for each, line in zip((True, False, True), printed, strict=True)] == [True] * 3
    if any(member.returncode for member in members):
        sys.exit("a message was lost, doubled or out of order between compiled members and one that is not")


if __name__ == "__main__":
    main()
