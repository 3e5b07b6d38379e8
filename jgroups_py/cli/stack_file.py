"""The arguments STACK and --property of subcommands that take a stack, and a stack with ARCHIVE added."""
from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Mapping

import attrs

from jgroups_py.config.load import load, packaged
from jgroups_py.config.spec import LayerSpec, StackSpec
from jgroups_py.protocols.archive import ArchiveConfig


def add_stack_arguments(parser: ArgumentParser) -> None:
    """Add STACK and --property."""
    parser.add_argument("stack", metavar="STACK", help="a stack file (.xml .yaml .yml) or a packaged stack's name "
                        f"({', '.join(packaged())})")
    add_property_argument(parser)


def add_property_argument(parser: ArgumentParser) -> None:
    """Add --property NAME=VALUE, which may be given any number of times."""
    parser.add_argument("--property", "-p", metavar="NAME=VALUE", action="append", default=[], type=name_and_value,
                        dest="properties", help="fills ${NAME:default} in the stack file; may be given again")


def name_and_value(text: str) -> tuple[str, str]:
    """The two sides of NAME=VALUE.

    >>> name_and_value("bind_addr=127.0.0.1")
    ('bind_addr', '127.0.0.1')
    """
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name, value


def recorded(
    stack: str, properties: Mapping[str, object], directory: str | None, keyring: str | None = None,
) -> StackSpec:
    """The stack with ARCHIVE at its top, which records to `directory`, payloads too; unchanged if that is None.

    keyring: with which the archive is encrypted.

    Raises:
        ConfigError: of the stack.
    """
    spec = load(stack, properties)
    if directory is None or spec.config_of("ARCHIVE") is not None:
        return spec
    layer = LayerSpec("ARCHIVE", ArchiveConfig(directory=directory, payload=True, archive_keyring=keyring or ""))
    at = len(spec.layers) - (spec.layers[-1].name == "TOPICS")           # the only layer that is above ARCHIVE
    return attrs.evolve(spec, layers=(*spec.layers[:at], layer, *spec.layers[at:]))
