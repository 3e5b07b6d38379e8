"""The draw of a partition and a member: a number that is the same to the last bit on every machine.

Three steps, each of which is either integer arithmetic or single IEEE 754 operations, so that plain Python and numpy,
any version and platform, agree exactly (test_draws_agree_bit_for_bit):

1. Hash. blake2b-64 of the partition, blake2b-128 of the member, once each, distinguished by `person` and keyed by the
   placement's key. blake2b has no vector form, and 10^8 calls for the pairs would take minutes.
2. Mix. The member's two words are the key of an iterated Even-Mansour cipher over the partition's word, with David
   Stafford's 64-bit mixer 13 (the one of SplitMix64, Steele, Lea and Flood 2014) as its permutation. So each member
   defines its own permutation of the partitions' hashes.
3. Draw. The upper 52 bits k of the mixed word give u = (2k+1) / 2^53, which a float holds exactly, and -ln(u) is
   computed by a fixed sequence of +, -, * and /. math.log and numpy.log differ between platforms in the last bit.
"""
from __future__ import annotations

from hashlib import blake2b
from math import frexp

MASK = (1 << 64) - 1
MIX = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB       # Stafford's mixer 13
SHIFTS = 30, 27, 31
DRAW_SHIFT = 12                                    # 64 bits to 52
LN_2 = 0.6931471805599453
SQRT_HALF = 0.7071067811865476
SCALE_BITS = 53                                    # u is an odd number by 2^53
SERIES = (1 / 15, 1 / 13, 1 / 11, 1 / 9, 1 / 7, 1 / 5, 1 / 3)
"""atanh(s) = s (1 + s^2/3 + s^4/5 + ...): with |s| < 0.172 the rest after s^15/15 is below 10^-13 of the sum."""

MemberKey = tuple[int, int]


def hash_partition(partition: str, key: bytes) -> int:
    """64 bits for a partition."""
    return int.from_bytes(blake2b(partition.encode(), digest_size=8, key=key, person=b"partition").digest(), "big")


def hash_member(member: str, key: bytes) -> MemberKey:
    """Twice 64 bits for a member."""
    digest = blake2b(member.encode(), digest_size=16, key=key, person=b"member").digest()
    return int.from_bytes(digest[:8], "big"), int.from_bytes(digest[8:], "big")


def mix(word: int) -> int:
    """A fixed permutation of 64-bit words in which every bit depends on every other."""
    word = ((word ^ (word >> SHIFTS[0])) * MIX[0]) & MASK
    word = ((word ^ (word >> SHIFTS[1])) * MIX[1]) & MASK
    return word ^ (word >> SHIFTS[2])


def pair(partition: int, member: MemberKey) -> int:
    """The hash of a partition and a member."""
    return mix(mix(partition ^ member[0]) ^ member[1])


def exponential(word: int) -> float:
    """-ln(u) of the u in the upper bits of a word: from 2^-53 to 36.7."""
    mantissa, exponent = frexp(float(2 * (word >> DRAW_SHIFT) + 1))
    if mantissa < SQRT_HALF:
        mantissa, exponent = mantissa * 2.0, exponent - 1
    part = (mantissa - 1.0) / (mantissa + 1.0)
    square = part * part
    total = SERIES[0]
    for factor in SERIES[1:]:
        total = total * square + factor
    logarithm = (total * square + 1.0) * part * 2.0
    return float(SCALE_BITS - exponent) * LN_2 - logarithm
