"""What this process has open that seals its frames, and what it has that cannot: the two go together only by order.

A process with ENCRYPT believes nothing that it has not opened. Beside it a stack in the format of another system
(INFLUX, MEMBERLIST without keys, Aeron's names) would believe whatever arrives, and tell the application so. It is
refused, unless its `trusted_network` says that only trusted machines reach its port.
"""
from __future__ import annotations

import os
import threading
from typing import Final

import attrs

from jgroups_py.config.spec import StackSpec
from jgroups_py.model.errors import ConfigError


@attrs.frozen(eq=False)
class OpenFormat:
    """One stack, or service. name: its transport; sealed: it has ENCRYPT; foreign: it believes frames that are not
    sealed, and nothing says that its network is trusted."""

    name: str
    sealed: bool
    foreign: bool


def format_of(spec: StackSpec) -> OpenFormat:
    """What a stack is."""
    transport = spec.layers[0]
    trusted = getattr(transport.config, "trusted_network", None)     # None: not of another system
    return OpenFormat(transport.name, spec.config_of("ENCRYPT") is not None,
                      trusted is False and not getattr(transport.config, "keys", ()))


class OpenFormats:
    """All that this process has open."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: list[OpenFormat] = []
        os.register_at_fork(after_in_child=self._open.clear)

    def enter(self, opened: OpenFormat) -> OpenFormat:
        """Something is opened; give it to `leave` when it is closed.

        Raises:
            ConfigError: it does not go together with what is open.
        """
        with self._lock:
            foreign = opened if opened.foreign else next((each for each in self._open if each.foreign), None)
            if foreign is not None and (opened.sealed or any(each.sealed for each in self._open)):
                raise ConfigError(
                    f"{foreign.name} believes frames that are not sealed, and another channel of this process has "
                    f"ENCRYPT: run it in a process of its own, or give {foreign.name} trusted_network=\"true\" if only "
                    "trusted machines reach its port")
            self._open.append(opened)
        return opened

    def leave(self, closed: OpenFormat) -> None:
        """It is closed."""
        with self._lock:
            if closed in self._open:                         # not in the child of a fork
                self._open.remove(closed)


FORMATS: Final = OpenFormats()
"""Of this process."""
