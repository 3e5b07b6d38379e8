"""`jgroups pipeline`: jobs on Spark over archives; the simulator's seeds spread over workers; synthetic archives."""
from jgroups_py.cli.pipeline.command import add_parser, run

__all__ = ["add_parser", "run"]
