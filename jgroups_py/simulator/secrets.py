"""Keys and random bytes of simulated members: all follow from the seed of the world."""
from __future__ import annotations

from random import Random

import attrs

from jgroups_py.config.spec import LayerSpec, StackSpec
from jgroups_py.model.errors import ConfigError
from jgroups_py.model.secrets import Secrets
from jgroups_py.protocols import KNOWN
from jgroups_py.protocols.auth.config import AuthConfig
from jgroups_py.sealing.identities import MEMBER, RELAY, OwnIdentity, new_identity
from jgroups_py.sealing.keyring import GroupKeyring
from jgroups_py.sealing.primitives import KEY_BYTES
from jgroups_py.simulator.tokens import CHECK
from jgroups_py.stack.protocol import Protocol

TRUST, REVOKED = "known.json", "revoked.json"            # the files of AUTH, the same on all hosts


class VirtualSecrets(Secrets):
    """Of one incarnation. seed: names it, so that no two draw the same; keyrings, files: path -> the file, the
    same on all hosts; drawn: gets each key that is drawn, for the checker of K14."""

    def __init__(
        self, seed: str, keyrings: dict[str, GroupKeyring], files: dict[str, bytes], drawn: list[bytes],
    ) -> None:
        self._random = Random(f"{seed}/entropy")
        self._keyrings = keyrings
        self._files = files
        self._drawn = drawn

    def draw(self, nbytes: int) -> bytes:
        made = self._random.randbytes(nbytes)
        if nbytes == KEY_BYTES:
            self._drawn.append(made)
        return made

    def keyring(self, path: str) -> GroupKeyring:
        found = self._keyrings.get(path)
        if found is None:
            raise ConfigError(f"keyring {path}: no such file in this world")
        return found

    def file(self, path: str, what: str, *, private: bool) -> bytes:
        found = self._files.get(path)
        if found is None:
            raise ConfigError(f"{what} {path}: no such file in this world")
        return found


def virtual_key(seed: str) -> bytes:
    """The bytes of a key."""
    return Random(f"{seed}/key").randbytes(KEY_BYTES)


def virtual_identity(seed: str, name: str, site: str = "", roles: tuple[str, ...] = (MEMBER, RELAY)) -> OwnIdentity:
    """The identity of a member; the same in all its incarnations."""
    return new_identity(Random(f"{seed}/identity/{name}").randbytes(KEY_BYTES), name, site, roles)


def token_of(identity: str) -> str:
    """The file of the token that belongs to that of an identity."""
    return f"{identity.removesuffix('.pem')}.token"


def with_auth(
    spec: StackSpec, identity: str, own: type[Protocol] | None = None, authority: str = "keys",
) -> StackSpec:
    """The stack, which has ENCRYPT, with AUTH above that, unless it has one. own: a class in place of AUTH's;
    authority: its property."""
    if spec.config_of("AUTH") is not None:
        return spec
    if authority == "token":
        config = AuthConfig(authority=authority, identity=identity, token=token_of(identity), check=CHECK,
                            revoked=REVOKED)
    else:
        config = AuthConfig(authority=authority, identity=identity, trust=TRUST, revoked=REVOKED)
    return attrs.evolve(spec, layers=(*spec.layers[:2], LayerSpec("AUTH", config, own=own), *spec.layers[2:]))


def with_encrypt(
    spec: StackSpec, keyring: str, mode: str = "shared", sign: str = "none", accept_clear: str = "0s",
) -> StackSpec:
    """The stack with ENCRYPT above its transport, unless it has one. mode, sign, accept_clear: its properties."""
    if spec.config_of("ENCRYPT") is not None:
        return spec
    layer = LayerSpec("ENCRYPT", KNOWN["ENCRYPT"].load().Config(
        keyring=keyring, mode=mode, sign=sign, accept_clear_ns=accept_clear))
    return attrs.evolve(spec, layers=(spec.layers[0], layer, *spec.layers[1:]))
