"""Classes of applications, named in a configuration: by entry point ("mine") or by dotted name
("package.module:Class")."""
from __future__ import annotations

from importlib import import_module
from importlib.metadata import entry_points

from jgroups_py.model.errors import ConfigError


def plugin(name: str, group: str, base: type) -> type:
    """The subclass of `base` that `name` stands for, among the entry points of `group` or by its dotted name.

    Raises:
        ConfigError: there is none, it cannot be imported, or it is no subclass of `base`.
    """
    found = _imported(name, group)
    if not (isinstance(found, type) and issubclass(found, base)):
        raise ConfigError(f"{name!r} is no subclass of {base.__module__}.{base.__qualname__}")
    return found


def _imported(name: str, group: str) -> object:
    try:
        if ":" in name:
            module, _, attribute = name.partition(":")
            if module.startswith("."):
                raise ImportError("the name of a module does not begin with a dot")
            found: object = getattr(import_module(module), attribute)
            return found
        entry = next((entry for entry in entry_points(group=group) if entry.name == name), None)
        if entry is not None:
            loaded: object = entry.load()
            return loaded
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"{name!r} cannot be imported: {error}") from None
    installed = ", ".join(sorted(entry.name for entry in entry_points(group=group))) or "none is installed"
    raise ConfigError(f"{name!r} is neither package.module:Class nor an entry point of {group} ({installed})")
