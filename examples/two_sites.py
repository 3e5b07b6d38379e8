"""Two sites, NYC and SFO, in one process; the relay of NYC leaves, and SFO receives every message once.

    python examples/two_sites.py
"""
import os
import time

import jgroups_py as jg

PORT = 20000 + os.getpid() % 20000
GROUP = f"two-sites-{os.getpid()}"
BRIDGE = {"bridge_port": PORT, "bridge_hosts": f"127.0.0.1[{PORT}]", "bridge_name": f"{GROUP}-bridge"}


class Member(jg.Receiver):
    """Keeps what it receives, and answers the first order from the other site."""

    def __init__(self, stack: str, name: str) -> None:
        self.got, self.answers = [], []
        self.channel = jg.JChannel(stack, name=name, properties=BRIDGE, receiver=self)
        self.channel.connect(f"{GROUP}-{stack}")

    def receive(self, message: jg.Message) -> None:
        if message.dest is not None:
            self.answers.append((str(message.src), message.payload))
            return
        self.got.append(message.payload)
        if message.is_relayed and message.payload == b"order 0":
            self.channel.send(message.src, b"thanks")        # src is a ProxyUUID: the answer goes over both relays


def wait(what: str, condition) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline, f"not within 20 s: {what}"
        time.sleep(0.01)


a, b, c = (Member("nyc", name) for name in "ABC")
d, e = (Member("sfo", name) for name in "DE")
members = [a, b, c, d, e]
wait("all members of both sites in every global view", lambda: all(
    x.channel.global_view is not None and len(x.channel.global_view.members) == 5 for x in members))
print("global view:", c.channel.global_view)

orders = [f"order {number}".encode() for number in range(1000)]
for number, order in enumerate(orders):
    c.channel.send(None, order)
    if number == 500:
        print("the relay of NYC leaves while C goes on sending")
        a.channel.close()
wait("all orders in SFO, and two answers at C", lambda: (
    len(e.got) >= 1000 and len(d.got) >= 1000 and len(c.answers) >= 2))
for member in members[1:]:
    member.channel.close()
print(f"D received {len(d.got)}, E received {len(e.got)}; C was thanked by {sorted(name for name, _ in c.answers)}")
assert d.got == e.got == b.got == orders
assert sorted(c.answers) == [("D@SFO", b"thanks"), ("E@SFO", b"thanks")]
