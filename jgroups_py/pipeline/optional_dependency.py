"""Imports of packages that only the extra `jgroups_py[spark]` installs, and the error if they are missing."""
from __future__ import annotations

from importlib import import_module
from typing import Any

EXTRA = "jgroups_py[spark]"


class SparkMissingError(ImportError):
    """A package of the extra, or Java, is not installed; the message names what to install."""


def require(module: str, what: str | None = None) -> Any:
    """Import a module of the extra. what: what the error names instead of the module.

    Raises:
        SparkMissingError: it is not installed.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not module.startswith(error.name):
            raise
        raise SparkMissingError(f"the pipeline needs {what or module}; install it with: "
                                f"pip install '{EXTRA}'") from None
