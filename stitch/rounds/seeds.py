"""Seeds: every round's seed derives from the run's root seed, so that a rerun can repeat it."""

from __future__ import annotations

import hashlib

_MASK = 0x7FFF_FFFF
"""31 bits: what R's `set.seed`, C's `int` and every JSON reader take."""


def round_seed(root_seed: int, pass_id: int) -> int:
    """The seed of round `pass_id`, 0 to 2**31 - 1: the first 4 bytes, big-endian, of a SHA-256."""
    return int.from_bytes(hashlib.sha256(f"{root_seed}:round:{pass_id}".encode()).digest()[:4]) & _MASK


def root_seed_of(entropy: bytes) -> int:
    """A root seed of 53 bits from random bytes (at least 7), exact in every JSON reader."""
    return int.from_bytes(entropy[:7]) & ((1 << 53) - 1)
