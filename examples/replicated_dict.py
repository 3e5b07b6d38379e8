"""A dictionary that every member has and that cannot diverge: two members write the same keys, a third joins meanwhile.

    python examples/replicated_dict.py
"""
import os
import threading
import time

import jgroups_py as jg
from jgroups_py.blocks.dicts.replicated import ReplicatedDict

GROUP = f"replicated-dict-{os.getpid()}"
WRITES, KEYS = 100, 20


def member(name: str) -> tuple[jg.JChannel, ReplicatedDict[str, int]]:
    """A channel, and its copy of the dict "prices", which is made before the channel connects."""
    channel = jg.JChannel("udp-total", name=name)
    return channel, ReplicatedDict(channel, "prices", str, int)


channels, dicts = zip(*map(member, "ABC"), strict=True)
first, second, third = dicts
channels[0].connect(GROUP)
channels[1].connect(GROUP)
assert first.wait_ready()
assert second.wait_ready()


def keep_writing(prices: ReplicatedDict[str, int], start: int) -> None:
    for number in range(WRITES):
        prices[f"key{number % KEYS}"] = start + number           # returns when it has its place, and is read here
    prices.increment("writers")


writers = [threading.Thread(target=keep_writing, args=given) for given in ((first, 0), (second, 10_000))]
for writer in writers:
    writer.start()
channels[2].connect(GROUP)                                       # in the middle of it
assert third.wait_ready()
for writer in writers:
    writer.join()
deadline = time.monotonic() + 10
while any(prices.get("writers") != 2 for prices in dicts) and time.monotonic() < deadline:
    time.sleep(0.01)
copies = [prices.copy() for prices in dicts]
for channel in channels:
    channel.close()
print(f"A, B and C have {len(copies[0])} keys each, all equal: {copies[0] == copies[1] == copies[2]}")
assert copies[0] == copies[1] == copies[2]
