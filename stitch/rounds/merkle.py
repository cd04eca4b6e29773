"""The commitment to a site's data: a salted Merkle root (docs/protocol.md, The dataset's root).

Every hash begins with a tag of its own, so that no leaf can pass for a node, nor a node for the root.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

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


@dataclass(frozen=True, slots=True)
class Opening:
    """What shows that one content is among those of a root, and nothing of the others.

    Attributes:
        name: the content's.
        content: its SHA-256.
        salt: the leaf's own; it tells nothing of another's.
        path: from the leaf to the top: on which side the neighbour stands, and its hash.
        count: how many leaves there are.
    """

    name: bytes
    content: bytes
    salt: bytes
    path: tuple[tuple[Literal["left", "right"], bytes], ...]
    count: int

    @property
    def root(self) -> str:
        """The root that this opens; computed from what it holds alone."""
        at = _salted(self.name, self.content, salt=self.salt)
        for side, neighbour in self.path:
            at = _tagged(NODE, neighbour, at) if side == "left" else _tagged(NODE, at, neighbour)
        return _tagged(ROOT, self.count.to_bytes(8), at).hex()


def open_leaf(episodes: Iterable[tuple[bytes, bytes]], name: bytes, *, secret: bytes) -> Opening:
    """Open the root over named contents for one of them.

    Args:
        episodes: as for `dataset_root`.
        name: whose leaf.
        secret: as for `dataset_root`; it is not in what comes out.

    Raises:
        ConfigError: none has that name.
    """
    ordered = sorted(episodes)
    at = next((number for number, (one, _) in enumerate(ordered) if one == name), None)
    if at is None:
        raise ConfigError(
            f"{name.decode(errors='replace')[:200]!r} is none of the contents of this root",
            hint="Name a file relative to the data folder, with forward slashes.",
        )
    content, path = ordered[at][1], list[tuple[Literal["left", "right"], bytes]]()
    level = [_leaf(one, digest, secret=secret) for one, digest in ordered]
    while len(level) > 1:
        beside = at ^ 1
        if beside < len(level):  # an odd last one goes up as it is
            path.append(("left" if beside < at else "right", level[beside]))
        level, at = _above(level), at // 2
    return Opening(name, content, _salt(name, secret=secret), tuple(path), len(ordered))


def numbered(contents: Iterable[bytes]) -> list[tuple[bytes, bytes]]:
    """Names for contents that have none: their places among the sorted ones, so that order is no matter."""
    return [(b"%016d" % number, content) for number, content in enumerate(sorted(contents))]


def _leaf(name: bytes, content: bytes, *, secret: bytes) -> bytes:
    return _salted(name, content, salt=_salt(name, secret=secret))


def _salt(name: bytes, *, secret: bytes) -> bytes:
    """The salt of one leaf, which tells nothing of any other leaf's."""
    return hmac.digest(secret, name, "sha256")


def _salted(name: bytes, content: bytes, *, salt: bytes) -> bytes:
    return _tagged(LEAF, salt, _tagged(EPISODE, len(name).to_bytes(8), name, content))


def _top(level: Sequence[bytes]) -> bytes:
    while len(level) > 1:
        level = _above(level)
    return level[0]


def _above(level: Sequence[bytes]) -> list[bytes]:
    """The level above: pairs become nodes, an odd last one goes up as it is."""
    pairs = [_tagged(NODE, one, other) for one, other in zip(level[::2], level[1::2], strict=False)]
    return [*pairs, level[-1]] if len(level) % 2 else pairs


def _tagged(tag: bytes, *parts: bytes) -> bytes:
    return hashlib.sha256(tag + b"".join(parts)).digest()
