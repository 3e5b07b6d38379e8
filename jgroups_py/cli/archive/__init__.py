"""`jgroups archive`: list, check, show and replay what members recorded with ARCHIVE."""
from jgroups_py.cli.archive.command import add_parser as add_parser
from jgroups_py.cli.archive.command import run as run
