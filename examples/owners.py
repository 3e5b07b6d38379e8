"""Three members share the partitions of a set; one of them goes, and the others have what it had.

    python examples/owners.py
"""
from __future__ import annotations

import os
import threading

import jgroups_py as jg
from jgroups_py.blocks.coordination import Coordination, Fence
from jgroups_py.blocks.owners import OwnerGrant, Owners

PARTITIONS = 12
FOUNDERS = ("A", "B", "C")
PORT = {"mcast_port": str(20_000 + os.getpid() % 20_000)}


class Shop:
    """What a member does with its partitions: here it counts, with a fence in front of each count."""

    fences = [Fence() for _ in range(PARTITIONS)]
    served = [0] * PARTITIONS
    changed = threading.Condition()

    def __init__(self, name: str) -> None:
        self.channel = jg.JChannel("udp", name, PORT)
        self.co = Coordination(self.channel, founders=FOUNDERS)
        self.mine: dict[int, OwnerGrant] = {}

    def takes_part(self) -> None:
        """From now on it has its share."""
        self.owners = Owners(self.co, "orders", PARTITIONS, gained=self.gained, lost=self.lost)

    def gained(self, partition: int, grant: OwnerGrant) -> None:
        """It works on the partition from now on."""
        with self.changed:
            self.fences[partition].admit(grant.fence)
            self.served[partition] += 1
            self.mine[partition] = grant
            self.changed.notify_all()

    def lost(self, partition: int, grant: OwnerGrant) -> None:
        """It has finished: another one may have it when this returns."""
        with self.changed:
            del self.mine[partition]
            self.changed.notify_all()


def share(*shops: Shop) -> list[int]:
    """How many each has, once all are told and each has as many as the others."""
    with Shop.changed:
        even = [PARTITIONS // len(shops)] * len(shops)
        assert Shop.changed.wait_for(lambda: [len(shop.mine) for shop in shops] == even, 30), "no balance in 30 s"
        return even


def main() -> None:
    """Three, two, and who serves a key."""
    shops = [Shop(name) for name in FOUNDERS]
    for shop in shops:
        shop.channel.connect("shop")
    shops[0].co.wait_for_store()
    for shop in shops:
        shop.takes_part()
    print("three members:", share(*shops))
    a, b, c = shops
    kept = set(a.mine)
    c.owners.close()
    print("two members:", share(a, b), "and A keeps what it had:", kept <= set(a.mine))
    key = "customer 7"
    owner = a.owners.owner_of(key)
    assert owner is not None
    print(key, "belongs to", owner.owner, "with a fence above 0:", owner.fence > 0)
    assert (a if owner.owner == a.channel.me else b).owners.grant_for(key) is not None
    assert kept <= set(a.mine)
    for shop in shops:
        shop.channel.close()


if __name__ == "__main__":
    main()
