"""`jgroups demo`: two data centers replicate while their coordinators are killed. See director.py."""
from jgroups_py.cli.demo.command import add_parser, run

__all__ = ["add_parser", "run"]
