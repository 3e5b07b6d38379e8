"""Keys and random bytes of simulated members: all follow from the seed of the world."""
from __future__ import annotations

from random import Random

import attrs

from jgroups_py.config.spec import LayerSpec, StackSpec
from jgroups_py.model.errors import ConfigError
from jgroups_py.model.secrets import Secrets
from jgroups_py.protocols import KNOWN
from jgroups_py.sealing.keyring import GroupKeyring
from jgroups_py.sealing.primitives import KEY_BYTES


class VirtualSecrets(Secrets):
    """Of one incarnation. seed: names it, so that no two draw the same; keyrings, files: path -> the file, of the
    world."""

    def __init__(self, seed: str, keyrings: dict[str, GroupKeyring], files: dict[str, bytes]) -> None:
        self._random = Random(f"{seed}/entropy")
        self._keyrings = keyrings
        self._files = files

    def draw(self, nbytes: int) -> bytes:
        return self._random.randbytes(nbytes)

    def keyring(self, path: str) -> GroupKeyring:
        found = self._keyrings.get(path)
        if found is None:
            raise ConfigError(f"keyring {path}: no such file in this world")
        return found

    def trusted_file(self, path: str) -> bytes:
        if path not in self._files:
            raise ConfigError(f"file {path}: no such file in this world")
        return self._files[path]


def virtual_key(seed: str) -> bytes:
    """The bytes of a key."""
    return Random(f"{seed}/key").randbytes(KEY_BYTES)


def with_encrypt(spec: StackSpec, keyring: str) -> StackSpec:
    """The stack with ENCRYPT above its transport, unless it has one."""
    if spec.config_of("ENCRYPT") is not None:
        return spec
    layer = LayerSpec("ENCRYPT", KNOWN["ENCRYPT"].load().Config(keyring=keyring))
    return attrs.evolve(spec, layers=(spec.layers[0], layer, *spec.layers[1:]))
