"""What subcommands that take a stack share: the argument, --property NAME=VALUE, and how errors are shown."""
from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError


def add_stack_arguments(parser: ArgumentParser) -> None:
    """STACK and --property."""
    parser.add_argument("stack", metavar="STACK",
                        help="a stack file (.xml .yaml .yml) or a packaged stack's name (udp, tcp, nyc, sfo, bridge)")
    add_property_argument(parser)


def add_property_argument(parser: ArgumentParser) -> None:
    """--property NAME=VALUE, any number of times."""
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
