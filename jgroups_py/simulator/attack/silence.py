"""K14 in a simulated world: no key is shown, and none is sent but to whom it is for.

Keys are those of keyrings, the private keys of identities and of exchanges, the keys of views and of pairs. Looked at
are all texts before they are sealed (the key of a view may be in a unicast, nothing else anywhere), at the end of a run
each line of the history, log entries among them, what operators are shown, and the `repr` of every object that holds a
key.
"""
from __future__ import annotations

import base64
import gc
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from jgroups_py.model.address import Address
from jgroups_py.protocols.encrypt.protocol import Encrypt
from jgroups_py.protocols.gms import Gms
from jgroups_py.simulator.object_sizes import PROGRAM

if TYPE_CHECKING:
    from jgroups_py.simulator.process import Process
    from jgroups_py.simulator.world import World

PACKAGE, PEM_LINE = "jgroups_py.", 44
ENOUGH = 16                              # bytes of a key that are looked for in lines: fewer may be there by chance


class Silence:
    """The keys of a world, and where they are shown."""

    def __init__(self, world: World) -> None:
        self.world = world

    def in_text(self, text: bytes, *, secret_to: Address | None) -> str:
        """Which key is in a text that is about to be sealed; "": none, or one that it may have. secret_to: the member
        that alone opens it; None: several do."""
        for key in self.world.drawn_keys:
            if key in text and (secret_to is None or key not in self.keys_of_views()):
                return f"a key to {'all' if secret_to is None else secret_to}"
        return ""

    def keys_of_views(self) -> dict[bytes, None]:
        """The keys of views that members have now."""
        return {secret: None for process in self.world.processes.values() for layer in layers(process, Gms)
                for secret in layer.secrets.values()}

    def keys(self) -> dict[bytes, None]:
        """All keys that are known now, or were drawn."""
        found = dict.fromkeys(self.world.drawn_keys)
        found |= {key.secret: None for key in self.world.keys().values()}
        for process in self.world.processes.values():
            for layer in layers(process, Encrypt):
                found |= {sender.pair.secret: None for sender in layer.pairs.values() if sender.pair is not None}
        return found

    def breaches(self) -> Iterator[str]:
        """Where a key is shown, at the end of a run."""
        keys = self.keys()
        forms = [form for key in keys for form in shown_forms(key[:ENOUGH])]
        forms += [line for path, data in self.world.files.items() if path.endswith(".pem") for line in pem_lines(data)]
        for text in self.texts():
            if any(form in text for form in forms):
                yield f"a key stands in: {text}"
        yield from holders_that_show(self.world.processes.values(), keys)

    def texts(self) -> Iterator[str]:
        """The history, and what operators of running members are shown."""
        yield from self.world.history.lines()
        for process in self.world.processes.values():
            for layer in layers(process, Encrypt):
                yield str(layer.key_report())
            yield str(process.node.stats())


def layers(process: Process, kind: type[Any]) -> Iterator[Any]:
    """The layers of a kind in both stacks of a process."""
    for net in (0, 1):
        stack = process.stack(net)
        found = stack.find(kind) if stack is not None else None
        if found is not None:
            yield found


def shown_forms(key: bytes) -> tuple[str, ...]:
    """How the beginning of a key may look in a text."""
    return key.hex(), base64.b64encode(key).decode()[:ENOUGH], repr(key)[2:-1], str(list(key))[1:-1]


def pem_lines(data: bytes) -> Iterator[str]:
    """The lines of the private keys in a PEM file."""
    secret = False
    for line in data.decode().splitlines():
        if line.startswith("-----"):
            secret = line.startswith("-----BEGIN") and "PRIVATE" in line
        elif secret and len(line) >= PEM_LINE:
            yield line


def holders_that_show(processes: Iterable[Process], keys: dict[bytes, None]) -> Iterator[str]:
    """The objects of running members that hold a key and have it in their `repr`."""
    for process in processes:
        if not process.running:
            continue
        seen: dict[int, object] = {}
        waiting: list[object] = [process.node]
        while waiting:
            found = []
            for one in waiting:
                if id(one) not in seen and not isinstance(one, PROGRAM):
                    seen[id(one)] = one
                    found.append(one)
                    key = next((value for value in values_of(one) if value.__class__ is bytes and value in keys), None)
                    if key is not None and any(form in repr(one) for form in shown_forms(key)):
                        yield f"{one.__class__.__qualname__} of {process.incarnation} shows its key"
            waiting = gc.get_referents(*found)


def values_of(one: object) -> Iterator[Any]:
    """What the fields of an object of the package have."""
    if one.__class__.__module__.startswith(PACKAGE):
        yield from getattr(one, "__dict__", {}).values()
        for base in one.__class__.__mro__:
            slots = base.__dict__.get("__slots__", ())
            for name in (slots,) if isinstance(slots, str) else slots:
                yield getattr(one, name, None)
