"""`jgroups bench`: throughput, requests, relay, membership and the cost of the layers, measured on real processes."""
from jgroups_py.cli.bench.command import add_parser, run

__all__ = ["add_parser", "run"]
