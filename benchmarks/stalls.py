"""Claim: relays that stall for a while, again and again, are not suspected. `python -m benchmarks.stalls --minutes 10`.

Two sites of three members, the stock stacks with accrual, proxies between the sites. A member is stopped for --stall ms
(SIGSTOP) about once a second, relays as often as all others together; a message every 10 ms crosses meanwhile. Exit 1
if a view changed, or a message was lost, doubled or out of order.
"""
from __future__ import annotations

import json
import os
import signal
import sys
import time
from argparse import ArgumentParser
from random import Random

from jgroups_py.cli.bench.group import START_TIMEOUT_S
from jgroups_py.cli.bench.wan import ACCRUAL, EVERY_S, SETTLE_S, BridgePath, two_sites

COUNTED = ("accrual_suspected", "false_alarms", "suspected", "own_pauses", "views_installed", "confirmed", "refuted")


def main(words: list[str]) -> int:
    """The command."""
    parser = ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--stall", type=float, default=300.0, metavar="MS")
    parser.add_argument("--delay", type=float, default=0.0, metavar="MS", help="of the path between the sites, one way")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args(words)
    rng = Random(args.seed)
    with two_sites(3, BridgePath(args.delay / 1000), {"steady": True}, ACCRUAL) as (group, crowds):
        relays, others = [crowd[0] for crowd in crowds], [member for crowd in crowds for member in crowd[1:]]
        sender, receiver = crowds[0][-1], crowds[1][-1]
        group.command([sender], "drip", every_s=EVERY_S, size=1000)
        time.sleep(SETTLE_S)

        def counts() -> dict[str, int]:
            group.command(group.members, "counters", names=COUNTED)
            found = group.wait("the counters", group.members, "counters", START_TIMEOUT_S)
            return {name: sum(event["counters"].get(name, 0) for event in found) for name in COUNTED}

        before, stalls, until = counts(), 0, time.monotonic() + 60 * args.minutes
        while time.monotonic() < until:
            member = rng.choice(relays if rng.random() < 0.5 else others)
            os.kill(member.process.pid, signal.SIGSTOP)
            time.sleep(args.stall / 1000)
            os.kill(member.process.pid, signal.SIGCONT)
            stalls += 1
            time.sleep(rng.uniform(0.1, 1.5))
        after = counts()
        group.command([sender], "drip_end")
        sent = group.wait("all sent", [sender], "dripped", START_TIMEOUT_S)[0]["sent"]
        time.sleep(1.0 + 4 * args.delay / 1000)
        group.command([receiver], "report")
        report = group.wait("the counts", [receiver], "report", START_TIMEOUT_S)[0]["received"][sender.tag]
    whole = (report["count"], report["next"], report["duplicates"], report["out_of_order"]) == (sent, sent, 0, 0)
    rise = {name: after[name] - before[name] for name in COUNTED}
    print(json.dumps({"stalls": stalls, "sent": sent, "received": report, **rise}))
    return 0 if whole and not rise["views_installed"] else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
