"""A dictionary that every member has; a joiner fetches the state and misses nothing that is sent meanwhile.

    python examples/replicated_dict.py
"""
import json
import os
import threading
import time

import jgroups_py as jg

GROUP = f"replicated-dict-{os.getpid()}"


class ReplicatedDict(jg.Receiver):
    """Each change is multicast; every member applies the changes of a sender in the order of sending."""

    def __init__(self, name: str) -> None:
        self.entries: dict[str, int] = {}
        self.channel = jg.JChannel("udp", name=name, receiver=self)

    def put(self, key: str, value: int) -> None:
        self.channel.send(None, json.dumps([key, value]).encode())

    def receive(self, message: jg.Message) -> None:
        key, value = json.loads(message.payload)
        self.entries[key] = value

    def get_state(self, stream) -> None:
        stream.write(json.dumps(self.entries).encode())

    def set_state(self, stream) -> None:
        self.entries = json.loads(stream.read())


first, second = ReplicatedDict("A"), ReplicatedDict("B")
first.channel.connect(GROUP)


def keep_putting() -> None:
    for number in range(2000):
        first.put(f"key{number}", number)


writer = threading.Thread(target=keep_putting)
writer.start()
second.channel.connect(GROUP, state_from=jg.COORDINATOR)           # in the middle of it
writer.join()
deadline = time.monotonic() + 10
while len(second.entries) < 2000 and time.monotonic() < deadline:
    time.sleep(0.01)
first.channel.close()
second.channel.close()
print(f"A has {len(first.entries)} entries, B has {len(second.entries)}")
assert first.entries == second.entries == {f"key{number}": number for number in range(2000)}
