"""`jgroups top`: a live table of all members, in the terminal."""
from jgroups_py.cli.top.command import add_parser as add_parser
from jgroups_py.cli.top.command import run as run
