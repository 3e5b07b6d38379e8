"""The extra `jgroups_py[spark]`: what the pipeline needs beyond the library itself, and the error that names it."""
from __future__ import annotations

from importlib import import_module
from typing import Any

EXTRA = "jgroups_py[spark]"


class SparkMissingError(ImportError):
    """Something of the extra is not installed; the message names what to install."""


def require(module: str, what: str | None = None) -> Any:
    """Import a module of the extra.

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
