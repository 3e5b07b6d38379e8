"""A stack built in Python, with a layer that drops a tenth of what arrives; every message is delivered all the same.

    python examples/bad_network.py
"""
import os
import time

import jgroups_py as jg
from jgroups_py.config.load import load
from jgroups_py.config.spec import LayerSpec
from jgroups_py.protocols import KNOWN

GROUP = f"bad-network-{os.getpid()}"

udp = load("udp")
discard = LayerSpec("DISCARD", KNOWN["DISCARD"].load().Config(up_ratio="10%"))
lossy = jg.StackSpec((udp.layers[0], discard, *udp.layers[1:]), "udp with losses")

got: list[bytes] = []
a = jg.JChannel(lossy, name="A")
b = jg.JChannel(lossy, name="B", receiver=lambda message: got.append(message.payload))
a.connect(GROUP)
b.connect(GROUP)
sent = [f"message {number}".encode() for number in range(2000)]
for payload in sent:
    a.send(None, payload)
deadline = time.monotonic() + 20
while len(got) < len(sent) and time.monotonic() < deadline:
    time.sleep(0.01)
print(f"{len(got)} of {len(sent)} arrived; dropped on the way: {b.stats()['DISCARD']}")
a.close()
b.close()
assert got == sent
