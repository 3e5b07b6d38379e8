"""Two sites, NYC and SFO, in one process; a relay dies and SFO misses nothing.

    python examples/two_sites.py
"""
import os
import time

import jgroups_py as jg

PORT = 20000 + os.getpid() % 20000
GROUP = f"two-sites-{os.getpid()}"
BRIDGE = {"bridge_port": PORT, "bridge_hosts": f"127.0.0.1[{PORT}]", "bridge_name": f"{GROUP}-bridge"}


class Site(jg.Receiver):
    """A member that keeps what comes and answers messages of the other site."""

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
            self.channel.send(message.src, b"thanks")              # a ProxyUUID: over both relays to the sender


def wait(what: str, condition) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain: {what}"
        time.sleep(0.01)


a, b, c = (Site("nyc", name) for name in "ABC")
d, e = (Site("sfo", name) for name in "DE")
everybody = [a, b, c, d, e]
wait("all see both sites", lambda: all(
    x.channel.global_view is not None and len(x.channel.global_view.members) == 5 for x in everybody))
print("global view:", c.channel.global_view)

orders = [f"order {number}".encode() for number in range(1000)]
for number, order in enumerate(orders):
    c.channel.send(None, order)
    if number == 500:
        print("the relay of NYC leaves while C goes on sending")
        a.channel.close()
wait("everything in SFO", lambda: len(e.got) >= 1000 and len(d.got) >= 1000 and len(c.answers) >= 2)
for member in everybody[1:]:
    member.channel.close()
print(f"D received {len(d.got)}, E received {len(e.got)}; C was thanked by {sorted(name for name, _ in c.answers)}")
assert d.got == e.got == b.got == orders
assert sorted(c.answers) == [("D@SFO", b"thanks"), ("E@SFO", b"thanks")]
