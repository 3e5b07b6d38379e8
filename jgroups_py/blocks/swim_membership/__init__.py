"""Building block: an eventual membership without views, by SWIM alone.

    with Membership("membership", name="a", listener=MyListener()) as membership:
        membership.join("services", ["10.0.0.7:7946"])
        membership.set_tags({"role": "web"}, weight=2)
        for member in membership.members(): ...
"""
from __future__ import annotations

from jgroups_py.blocks.swim_membership.membership import Membership, MembershipListener

__all__ = ["Membership", "MembershipListener"]
