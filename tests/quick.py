"""`./test --quick`: what a change most probably breaks, in a minute. `./test --long` decides whether a change is right.

Style, types, and tests that are neither slow nor open sockets, without those of LEFT_OUT. With `--changed` those that
TESTS_OF has for the files that differ; a file that it does not have counts as a reason to run all quick ones.
"""
from __future__ import annotations

import os
import subprocess
import sys
import time
from argparse import ArgumentParser
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parents[1]
ALWAYS = ("tests/test_architecture.py", "tests/test_dependencies.py", "tests/unit/test_design.py")
"""What a change anywhere may break, in some seconds."""
QUICK = (*ALWAYS, "tests/unit", "tests/wire", "tests/scenarios")
LEFT_OUT = ("tests/unit/blocks/mqtt", "tests/unit/pipeline")
"""Half of the time of QUICK, for what little outside depends on. With `--changed` they run when that changes."""
DOCUMENTS = ("tests/test_documents.py", "tests/documents/test_links.py", "tests/documents/test_names.py",
             "tests/documents/test_words.py")
CORE = ("tests/unit", "tests/scenarios", "tests/wire")

TESTS_OF: dict[str, tuple[str, ...]] = {
    "jgroups_py/archive/": ("tests/unit/archive", "tests/unit/pipeline"),
    "jgroups_py/blocks/mqtt/": ("tests/unit/blocks/mqtt", "tests/runtime/mqtt"),
    "jgroups_py/blocks/": ("tests/unit/blocks",),
    "jgroups_py/channel/": ("tests/unit/channel", "tests/runtime"),
    "jgroups_py/cli/": ("tests/unit/cli", "tests/runtime"),
    "jgroups_py/config/": ("tests/unit/config", "tests/documents/test_generated.py"),
    "jgroups_py/model/": (*CORE, "tests/documents/test_generated.py"),
    "jgroups_py/node/": CORE,
    "jgroups_py/ops/": ("tests/unit/ops", "tests/unit/cli", "tests/runtime/test_http_server.py",
                        "tests/runtime/test_http_endpoint.py"),
    "jgroups_py/pipeline/": ("tests/unit/pipeline",),
    "jgroups_py/protocols/relay/": ("tests/unit/relay", "tests/scenarios", "tests/wire"),
    "jgroups_py/protocols/": ("tests/unit/protocols", "tests/unit/relay", "tests/scenarios", "tests/wire",
                              "tests/documents/test_generated.py"),
    "jgroups_py/runtime/": ("tests/runtime",),
    "jgroups_py/sealing/": ("tests/unit/sealing", "tests/unit/protocols"),
    "jgroups_py/simulator/": ("tests/simulator", "tests/scenarios"),
    "jgroups_py/stack/": CORE,
    "jgroups_py/system/": ("tests/runtime",),
    "jgroups_py/testing/": ("tests/simulator", "tests/unit/protocols"),
    "jgroups_py/windows/": ("tests/unit/windows", "tests/unit/protocols", "tests/unit/relay"),
    "jgroups_py/wire/": ("tests/wire", "tests/unit/protocols"),
    "benchmarks/": ("tests/unit/benchmarks",),
    "design/": DOCUMENTS,
    "docs/": DOCUMENTS,
    "examples/": (),
    "stacks/": ("tests/unit/config",),
    "tests/quick.py": ("tests/test_quick.py",),
    "test": ("tests/test_quick.py",),
    "CHANGELOG.md": DOCUMENTS,
    "CONTRIBUTING.md": DOCUMENTS,
    "README.md": DOCUMENTS,
    "SECURITY.md": DOCUMENTS,
}
"""The start of a path -> the tests of what lies there; the longest start that fits counts. (): none is quick."""


def selection_for(changed: Iterable[str]) -> list[str]:
    """What to give to pytest for changed files: folders and files, none inside another."""
    wanted = set(ALWAYS)
    for path in changed:
        wanted.update(selection_of(path))
    return sorted(one for one in wanted if not any(one.startswith(f"{other}/") for other in wanted))


def selection_of(path: str) -> tuple[str, ...]:
    """The tests of one file."""
    if path.startswith("tests/") and path not in TESTS_OF:
        own = Path(path)
        if own.name.startswith("test_") and own.suffix == ".py":
            return (path,) if (ROOT / path).exists() else ()
        if own.parent != Path("tests"):
            return (str(own.parent),) if (ROOT / own.parent).is_dir() else ()
    starts = [start for start in TESTS_OF if path == start or (start.endswith("/") and path.startswith(start))]
    return TESTS_OF[max(starts, key=len)] if starts else QUICK


def changed_since(commit: str, root: Path = ROOT) -> list[str]:
    """The files of a work tree that differ from a commit, removed ones and those that git does not track included.

    Raises:
        ValueError: there is no such commit, or no repository.
    """
    found: set[str] = set()
    for words in (["diff", "--name-only", "-z", "--no-renames", commit, "--"],
                  ["ls-files", "--others", "--exclude-standard", "-z"]):
        done = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True)
        if done.returncode:
            raise ValueError(f"git {' '.join(words)}: {done.stderr.strip() or 'failed'}")
        found.update(filter(None, done.stdout.split("\0")))
    return sorted(found)


def run(tests: list[str], left_out: Iterable[str] = ()) -> list[str]:
    """Run style, types (beside the tests) and tests but for the folders left out; the names of what failed."""
    python = sys.executable
    failed = []
    if subprocess.run([python, "-m", "ruff", "check", "."], cwd=ROOT).returncode:
        failed.append("style: ruff")
    types = subprocess.Popen([python, "-m", "mypy"], cwd=ROOT, text=True, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT)
    ignored = [f"--ignore={folder}" for folder in left_out]
    done = subprocess.run([python, "-m", "pytest", "-n", "2", "--dist", "worksteal", "-m", "not slow and not real",
                           "-p", "no:cacheprovider", *ignored, *tests], cwd=ROOT)
    if done.returncode:
        failed.append("tests: pytest")
    output, _ = types.communicate()
    sys.stdout.write(output)
    if types.returncode:
        failed.append("types: mypy")
    return failed


def main(words: list[str]) -> int:
    """The command."""
    parser = ArgumentParser(prog="./test --quick", description=__doc__.split("\n\n")[0])
    parser.add_argument("--changed", nargs="?", const="HEAD", metavar="COMMIT",
                        help="only the tests of files that differ from COMMIT (default: HEAD)")
    args = parser.parse_args(words)
    if args.changed is None:
        tests = list(QUICK)
    else:
        try:
            changed = changed_since(args.changed)
        except ValueError as error:
            sys.stderr.write(f"./test --quick --changed: {error}\n")
            return 2
        tests = selection_for(changed)
        sys.stdout.write(f"{len(changed)} files differ from {args.changed}: tests of {', '.join(tests)}\n")
    sys.stdout.flush()
    began_s = time.monotonic()
    failed = run(tests, LEFT_OUT if args.changed is None else ())
    used = os.times()
    sys.stdout.write(f"{time.monotonic() - began_s:.0f} s, {used.children_user + used.children_system:.0f} s of the "
                     f"processors; {'failed: ' + ', '.join(failed) if failed else 'all passed'}\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
