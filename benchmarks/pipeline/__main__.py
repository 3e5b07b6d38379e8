"""`python -m benchmarks.pipeline scale|stream|farm`: what design/pipeline.md says about speed.

    python -m benchmarks.pipeline scale --rows 2000000 5000000 --dir /tmp/scale
    python -m benchmarks.pipeline farm --seeds 0:200
    python -m benchmarks.pipeline stream --rate 50000 --seconds 60
"""
from __future__ import annotations

import sys
from argparse import ArgumentParser

from benchmarks.pipeline import farm, scale, stream

PARTS = {"scale": scale, "farm": farm, "stream": stream}


def main(words: list[str]) -> int:
    """The command."""
    parser = ArgumentParser(description=__doc__)
    parts = parser.add_subparsers(required=True)
    for name, part in PARTS.items():
        part.add_arguments(parts.add_parser(name, help=part.__doc__.split("\n")[0]))
    args = parser.parse_args(words)
    return int(args.run(args))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
