"""The options of `jgroups demo`, by the standard library alone: `./demo --help` runs this file and installs nothing."""
from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Callable
from typing import Any

DESCRIPTION = (
    "Two sites replicate: A B C in NYC and D E F in SFO, UDP inside a site, TCP between the sites. C multicasts the "
    "lines of a file, the others send numbered messages, F answers some lines. Meanwhile the coordinators of both "
    "sites are killed, one member leaves, and the first one killed returns. At the end every copy is compared byte for "
    "byte, and every message is counted. Exit 1 if one was lost, duplicated or out of order, 3 if the audit finds no "
    "fault, but a record is missing.")


def add_options(parser: ArgumentParser, within: Callable[[int, int], Callable[[str], Any]]) -> None:
    """Add the options. within: makes a type for whole numbers from the one to the other."""
    parser.add_argument("--input", metavar="FILE", help="the file that is replicated (default: a generated text)")
    parser.add_argument("--out", metavar="DIR", help="folder for the copies (default: a new temporary folder)")
    parser.add_argument("--rate", type=within(1, 100_000), help="lines a second (default 1000; "
                        "with --mqtt messages of each publisher, 2000 at most, default 200)")
    parser.add_argument("--web", metavar="PORT", nargs="?", const=0, type=within(0, 65535), help="show it on a page in "
                        "a browser on this host, with buttons that kill, freeze, cut and bring back; PORT: where "
                        "(default: any free one). The address is printed")
    parser.add_argument("--seconds", type=within(5, 3600), help="with --web: how long to send (default 120)")
    parser.add_argument("--mqtt", action="store_true", help="two sites of two MQTT brokers each, mosquitto's clients, "
                        "and kill -9 of both relays and of a broker; of the other options it has --rate, --out, --json")
    parser.add_argument("--members", type=within(1, 8), default=3, help="members a site (default 3)")
    parser.add_argument("--sites", type=within(2, 5), default=2, help="sites (default 2)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the generated text and of the times of the kills")
    parser.add_argument("--no-kill", action="store_true", help="no member is killed, none leaves")
    parser.add_argument("--archive", metavar="DIR", help="folder in which all members record what they send and "
                        "deliver (default: archive, beside the copies)")
    parser.add_argument("--no-archive", action="store_true", help="record nothing")
    parser.add_argument("--no-audit", action="store_true", help="no audit at the end")
    parser.add_argument("--no-spark", action="store_true", help="the audit at the end runs without Spark and Java: "
                        "the same jobs and tables")
    parser.add_argument("--secure", action="store_true", help="every frame sealed and every member known by its key, "
                        "inside the sites and between them, and the archive encrypted; keys are made in a new "
                        "temporary folder. Needs the extra [security]; not with --web or --mqtt")
    parser.add_argument("--json", action="store_true", help="print one JSON document at the end, nothing else")


if __name__ == "__main__":
    without_installation = ArgumentParser(prog="./demo", description=DESCRIPTION)
    add_options(without_installation, lambda least, most: int)
    without_installation.print_help()
