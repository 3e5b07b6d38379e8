"""Protocols from outside this package, which may be in a stack like those of the package.

A Python list names them by their class, a file by `package.module.Class`, as in JGroups. A subclass of a protocol of
this package has the name of that protocol, and the rules about its position hold for it too; any other has the name
that it declares (`name`), or that of its class. Their headers have ids from FIRST_ID on.
"""
from __future__ import annotations

import attrs

from jgroups_py.model.errors import ConfigError
from jgroups_py.model.plugins import plugin
from jgroups_py.protocols import KNOWN
from jgroups_py.stack.protocol import Protocol

PACKAGE = "jgroups_py.protocols."
FIRST_ID = 1024                              # lower ids of headers (wire.header(proto=...)) are for this package


def imported(name: str) -> type[Protocol]:
    """The class that a file names as `package.module.Class`.

    Raises:
        ConfigError: it does not exist, or is not a protocol.
    """
    module, _, cls = name.rpartition(".")
    return checked(plugin(f"{module}:{cls}", "", Protocol))


def checked(cls: type[Protocol]) -> type[Protocol]:
    """Check that a class may be in a stack, and give it a name if it declares none; returns the class.

    Raises:
        ConfigError: its properties lack descriptions, or it has the name of a protocol of this package.
    """
    config = cls.Config
    for field in attrs.fields(config) if attrs.has(config) else ():
        if "doc" not in field.metadata:
            raise ConfigError(f"{cls.__qualname__}: {config.__qualname__}.{field.name} is not made by duration(), "
                              "size(), count(), flag(), text(), ... of jgroups_py.model.units")
    if not attrs.has(config):
        raise ConfigError(f"{cls.__qualname__}: its Config, {config.__qualname__}, is not an attrs class")
    if any(base.__module__.startswith(PACKAGE) for base in cls.__mro__):
        for known in KNOWN.values():
            known.load()                                     # sets the name of the class, which subclasses inherit
    if not cls.name:
        cls.name = cls.__name__
    packaged = KNOWN.get(cls.name)
    if packaged is not None and not issubclass(cls, packaged.load()):
        raise ConfigError(f"{cls.__module__}.{cls.__qualname__} has the name of a packaged protocol, {cls.name}; "
                          "choose another")
    return cls
