"""Types of arguments on the command line: numbers within bounds."""
from __future__ import annotations

from argparse import ArgumentTypeError
from collections.abc import Callable
from typing import TypeVar

Number = TypeVar("Number", int, float)


def within(least: Number, most: Number) -> Callable[[str], Number]:
    """A type for argparse: a number from `least` to `most`, whole if these are.

    >>> within(1, 8)("3"), within(0.0, 1.0)("0.5")
    (3, 0.5)
    """
    def convert(text: str) -> Number:
        try:
            number = type(least)(text)
        except ValueError:
            whole = "whole " if isinstance(least, int) else ""
            raise ArgumentTypeError(f"{text!r} is not a {whole}number") from None
        if not least <= number <= most:
            raise ArgumentTypeError(f"{number} is outside {least} to {most}")
        return number
    return convert
