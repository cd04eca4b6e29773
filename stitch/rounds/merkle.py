"""The commitment to a site's data: a salted Merkle root (docs/protocol.md, The dataset's root).

Every hash begins with a tag of its own, so that no leaf can pass for a node, nor a node for the root.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable, Sequence

from stitch.errors import ConfigError

EPISODE, LEAF, NODE, ROOT = b"\x00", b"\x01", b"\x02", b"\x03"


def dataset_root(episodes: Iterable[tuple[bytes, bytes]], *, secret: bytes) -> str:
    """The root over named contents.

    Args:
        episodes: name and SHA-256 of each content, in any order: the names decide it.
        secret: at least 32 random bytes that never leave the site; without it nobody can try out
            which contents a root was made of.

    Returns:
        64 lower-case hex digits.

    Raises:
        ConfigError: there is nothing to commit to.
    """
    leaves = [_leaf(name, content, secret=secret) for name, content in sorted(episodes)]
    if not leaves:
        raise ConfigError(
            "there is no data to commit to",
            hint="Check data_directory in config/config.json, or what [hooks] leaves yields.",
        )
    return _tagged(ROOT, len(leaves).to_bytes(8), _top(leaves)).hex()


def numbered(contents: Iterable[bytes]) -> list[tuple[bytes, bytes]]:
    """Names for contents that have none: their places among the sorted ones, so that order is no matter."""
    return [(b"%016d" % number, content) for number, content in enumerate(sorted(contents))]


def _leaf(name: bytes, content: bytes, *, secret: bytes) -> bytes:
    """One leaf, under a salt that tells nothing of any other leaf's."""
    episode = _tagged(EPISODE, len(name).to_bytes(8), name, content)
    return _tagged(LEAF, hmac.digest(secret, name, "sha256"), episode)


def _top(level: Sequence[bytes]) -> bytes:
    """Pairs become nodes until one is left; an odd one goes up as it is."""
    while len(level) > 1:
        pairs = [_tagged(NODE, one, other) for one, other in zip(level[::2], level[1::2], strict=False)]
        level = [*pairs, level[-1]] if len(level) % 2 else pairs
    return level[0]


def _tagged(tag: bytes, *parts: bytes) -> bytes:
    return hashlib.sha256(tag + b"".join(parts)).digest()
