"""Secrets: the port by which a node gets random bytes and keys from its environment.

Bytes of a key, a challenge or a nonce come from here only, never from `self.rng`, which is for chance that an observer
may guess. The runtime's come from the operating system (system/secrets.py); the simulator's follow from the seed.
"""
from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from jgroups_py.model.errors import ConfigError

MAX_TRUST_BYTES = 4 << 20                   # of a file of identities or certificates


class Secrets(ABC):
    """forks: changes when the process was forked: what was drawn before is then known to two processes."""

    forks: int = 0

    @abstractmethod
    def draw(self, nbytes: int) -> bytes:
        """Random bytes that no other process can know; each call returns new ones."""

    @abstractmethod
    def keyring(self, path: str) -> Any:
        """The keyring at `path` (sealing.keyring.GroupKeyring).

        Raises:
            ConfigError: there is none, others may read it, or it is malformed.
        """

    def file(self, path: str, what: str, *, private: bool) -> bytes:
        """The contents of a file on which the safety of the group depends. what: what it is, for errors; private: no
        other user may read it.

        Raises:
            ConfigError: there is none, or others may write (if private: read) it.
        """
        raise ConfigError(f"{what} {path}: this node was given no way to read it")


class NoSecrets(Secrets):
    """Of a node that was given no source of secrets: a stack that needs one cannot be built."""

    def draw(self, nbytes: int) -> bytes:
        raise ConfigError("this node was given no source of random bytes (secrets=)")

    def keyring(self, path: str) -> Any:
        raise ConfigError("this node was given no way to read keyrings (secrets=)")
