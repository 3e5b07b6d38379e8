"""Protocols from outside this package: they stand in a stack like those of the package.

A Python list names them by their class, a file by `package.module.Class`, as JGroups does. A subclass of a protocol of
this package has its name and its place, with its rules; any other has the name that it declares (`name`), or its
class's. Header ids from FIRST_ID on are for them.
"""
from __future__ import annotations

import attrs

from jgroups_py.model.errors import ConfigError
from jgroups_py.model.plugins import plugin
from jgroups_py.protocols import KNOWN
from jgroups_py.stack.protocol import Protocol

PACKAGE = "jgroups_py.protocols."
FIRST_ID = 1024                              # of headers (wire.header(proto=...)); those below are this package's


def imported(name: str) -> type[Protocol]:
    """The class that a file calls `package.module.Class`.

    Raises:
        ConfigError: there is none, or it is no protocol.
    """
    module, _, cls = name.rpartition(".")
    return checked(plugin(f"{module}:{cls}", "", Protocol))


def checked(cls: type[Protocol]) -> type[Protocol]:
    """A class that may stand in a stack; it has a name afterwards.

    Raises:
        ConfigError: its properties lack descriptions, or it has the name of a protocol of this package.
    """
    config = cls.Config
    for field in attrs.fields(config) if attrs.has(config) else ():
        if "doc" not in field.metadata:
            raise ConfigError(f"{cls.__qualname__}: {config.__qualname__}.{field.name} is not made by duration(), "
                              "size(), count(), flag(), text(), ... of jgroups_py.model.units")
    if not attrs.has(config):
        raise ConfigError(f"{cls.__qualname__}: its Config, {config.__qualname__}, is no attrs class")
    if any(base.__module__.startswith(PACKAGE) for base in cls.__mro__):
        for known in KNOWN.values():
            known.load()                                     # which gives it its name
    if not cls.name:
        cls.name = cls.__name__
    namesake = KNOWN.get(cls.name)
    if namesake is not None and not issubclass(cls, namesake.load()):
        raise ConfigError(f"{cls.__module__}.{cls.__qualname__} has the name of a packaged protocol, {cls.name}; "
                          "choose another")
    return cls
