"""LZW as memberlist compresses with it: 8-bit literals, codes of 9 to 12 bits packed from the lowest bit up.

A stream begins with a clear code and ends with an end code; when all 4096 codes are used, the table starts again.
Source: T. Welch, A Technique for High-Performance Data Compression (1984); the variant is that of GIF and of Go's
compress/lzw (order LSB). What is decoded is bounded, because a few bytes may stand for a thousand times as many.
"""
from __future__ import annotations

from jgroups_py.model.errors import WireError

LITERAL_BITS = 8
MAX_BITS = 12
CLEAR = 1 << LITERAL_BITS
END = CLEAR + 1
LAST_CODE = (1 << MAX_BITS) - 1
LITERALS = [bytes((value,)) for value in range(CLEAR)]


class _Bits:
    """Packs codes of several bits into bytes."""

    def __init__(self) -> None:
        self.out = bytearray()
        self._kept = 0
        self._number = 0

    def add(self, code: int, width: int) -> None:
        self._kept |= code << self._number
        self._number += width
        while self._number >= 8:
            self.out.append(self._kept & 0xFF)
            self._kept >>= 8
            self._number -= 8

    def finish(self) -> bytes:
        if self._number:
            self.out.append(self._kept)
        return bytes(self.out)


def compressed(data: bytes) -> bytes:
    """`data` as an LZW stream."""
    bits, width, newest = _Bits(), LITERAL_BITS + 1, END
    bits.add(CLEAR, width)
    table: dict[tuple[int, int], int] = {}                   # (code of a string, next byte) -> code of both
    code = -1
    for value in data:
        longer = value if code < 0 else table.get((code, value))
        if longer is not None:
            code = longer
            continue
        bits.add(code, width)
        newest += 1
        if newest == LAST_CODE:
            bits.add(CLEAR, _width(newest, width))
            table, width, newest = {}, LITERAL_BITS + 1, END
        else:
            width = _width(newest, width)
            table[code, value] = newest
        code = value
    if code >= 0:
        bits.add(code, width)
        newest += 1
        width = _width(newest, width)
        if newest == LAST_CODE:
            bits.add(CLEAR, width)
            width = LITERAL_BITS + 1
    bits.add(END, width)
    return bits.finish()


def _width(newest: int, width: int) -> int:
    """The width of codes once `newest` is the highest; it grows one code before it must, as in GIF."""
    return width + 1 if newest == 1 << width and width < MAX_BITS else width


def decompressed(data: bytes, limit: int) -> bytes:
    """The data that an LZW stream encodes.

    Raises:
        WireError: it is malformed, it ends early, or it decodes to more than `limit` bytes.
    """
    out = bytearray()
    table: list[bytes] = []                                  # strings of the codes above END
    width, before = LITERAL_BITS + 1, b""
    kept = number = at = 0
    while True:
        while number < width:
            if at == len(data):
                raise WireError("compressed data ends early")
            kept |= data[at] << number
            number += 8
            at += 1
        code = kept & ((1 << width) - 1)
        kept >>= width
        number -= width
        if code == END:
            return bytes(out)
        if code == CLEAR:
            table, width, before = [], LITERAL_BITS + 1, b""
            continue
        before = _extend(table, before, code)
        out += before
        if len(out) > limit:
            raise WireError(f"compressed data decodes to more than {limit} bytes")
        if END + 1 + len(table) == 1 << width and width < MAX_BITS:
            width += 1


def _extend(table: list[bytes], before: bytes, code: int) -> bytes:
    """The string of `code`; the string before it and its first byte become the next code."""
    if code < CLEAR:
        string = LITERALS[code]
    elif code - END - 1 < len(table):
        string = table[code - END - 1]
    elif code - END - 1 == len(table) and before:
        string = before + before[:1]
    else:
        raise WireError("compressed data has a code that is not in the table yet")
    if before and len(table) < LAST_CODE - END:
        table.append(before + string[:1])
    return string
