"""Names of buckets that Spark's hash spreads evenly."""

from __future__ import annotations

_MASK = 0xFFFFFFFF


def spark_hash(value: int, seed: int = 42) -> int:
    """What Spark's `hash` gives for an int: Murmur3 in 32 bits.

    >>> spark_hash(1)
    -559580957
    """
    k = (value & _MASK) * 0xCC9E2D51 & _MASK
    k = (k << 15 | k >> 17) & _MASK
    k = k * 0x1B873593 & _MASK
    h = seed ^ k
    h = (h << 13 | h >> 19) & _MASK
    h = (h * 5 + 0xE6546B64) & _MASK
    h ^= 4
    h ^= h >> 16
    h = h * 0x85EBCA6B & _MASK
    h ^= h >> 13
    h = h * 0xC2B2AE35 & _MASK
    h ^= h >> 16
    return h - (1 << 32) if h >= 1 << 31 else h


def bucket_names(count: int) -> list[int]:
    """So many numbers that a shuffle to as many partitions sends one to each.

    >>> sorted(spark_hash(name) % 4 for name in bucket_names(4))
    [0, 1, 2, 3]
    """
    found: dict[int, int] = {}
    name = 0
    while len(found) < count:
        found.setdefault(spark_hash(name) % count, name)
        name += 1
    return [found[place] for place in range(count)]
