"""`python -m tests.fuzz frames`, `python -m tests.fuzz codecs`: hostile frames and mutated inputs, as many as you like.

Prints a line as each part is done, then the escapes by their causes, the first of each with what reproduces it; exit 1
if there was one.
"""
from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace

from tests.fuzz.codecs import fuzz
from tests.fuzz.corpus import corpus_of, keep
from tests.fuzz.frames import Episode, Tally, campaign
from tests.fuzz.targets import targets
from tests.fuzz.worlds import STACKS

SHOWN_FRAMES = 3


def show(text: str) -> None:
    """A line on stdout."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def report(tally: Tally, detail: bool) -> None:
    """The escapes, most frequent cause first."""
    for cause, number in tally.causes.most_common():
        first = tally.first[cause]
        show(f"  {number} x {cause}\n      {first.command}")
        if detail:
            show(first.detail)
            for frame in first.frames[-SHOWN_FRAMES:]:
                show(f"      {frame[:1000]}")


def frames(args: Namespace) -> int:
    """Attack the stacks one after the other."""
    escapes = 0
    for stack in args.stack or STACKS:
        tally = Tally()
        if args.episode is not None:
            Episode(stack, args.seed, args.episode).run(args.iterations, tally)
        else:
            for _ in campaign(stack, args.seed, args.iterations, tally):
                pass
        rate = tally.frames / tally.cpu_s if tally.cpu_s else 0.0
        show(f"{stack:<11} {tally.frames:>8,} frames in {tally.episodes} worlds, {rate:,.0f} a second of CPU, slowest "
             f"{1000 * tally.slowest_s:.0f} ms, heaviest node {tally.heaviest / (1 << 20):.1f} MB, "
            f"{sum(tally.causes.values())} escapes")
        report(tally, args.detail or args.episode is not None)
        escapes += sum(tally.causes.values())
    return 1 if escapes else 0


def codecs(args: Namespace) -> int:
    """Mutated inputs to the codecs one after the other; with --keep the shortest of each cause goes to the corpus."""
    escapes = 0
    for name in args.codec or targets():
        result = fuzz(targets()[name], args.seed, args.iterations, corpus_of(name))
        rate = result.inputs / result.cpu_s if result.cpu_s else 0.0
        show(f"{name:<25} {result.inputs:>8,} inputs, {result.refused:,} refused, {rate:,.0f} a second of CPU, slowest "
            f"{1000 * result.slowest_s:.1f} ms, {sum(result.causes.values())} escapes")
        for cause, number in result.causes.most_common():
            found = result.first[cause]
            show(f"  {number} x {cause}, for one by {len(found.data)} bytes: {found.data[:100].hex()}")
            if args.detail:
                show(found.detail)
            if args.keep:
                show(f"      kept as {keep(name, found.data)}")
        escapes += sum(result.causes.values())
    return 1 if escapes else 0


def main(words: list[str]) -> int:
    """The command."""
    parser = ArgumentParser(prog="python -m tests.fuzz", description=__doc__.split("\n\n")[0])
    commands = parser.add_subparsers(required=True)
    edge = commands.add_parser("frames", help="well-formed frames with edge values, to groups of the packaged stacks")
    edge.add_argument("--stack", action="append", choices=STACKS, help="one of them (default: all in turn)")
    edge.add_argument("--iterations", type=int, default=20_000, metavar="N", help="frames a stack (default: 20000)")
    edge.add_argument("--seed", type=int, default=1)
    edge.add_argument("--episode", type=int, help="this world only, with as many frames as it has there")
    edge.add_argument("--detail", action="store_true", help="with traces and frames, the first of each cause")
    edge.set_defaults(run=frames)
    mutants = commands.add_parser("codecs", help="mutated inputs to everything that reads what others wrote")
    mutants.add_argument("--codec", action="append", choices=list(targets()), help="one of them (default: all in turn)")
    mutants.add_argument("--iterations", type=int, default=2000, metavar="N", help="inputs a codec (default: 2000)")
    mutants.add_argument("--seed", type=int, default=1)
    mutants.add_argument("--detail", action="store_true", help="with traces")
    mutants.add_argument("--keep", action="store_true", help="put the shortest input of each cause into the corpus")
    mutants.set_defaults(run=codecs)
    args = parser.parse_args(words)
    return int(args.run(args))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
