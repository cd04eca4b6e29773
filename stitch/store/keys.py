"""Which keys a store takes: plain relative POSIX paths that every backend and every Windows disk can hold."""

from __future__ import annotations

import re

from stitch.errors import StoreError

_FORBIDDEN = re.compile(r'[\\<>:"|?*\x00-\x1f\x7f]')
_MAX_KEY = 900
"""Characters. Azure allows 1024, Windows less for the whole path: the layout stays far below."""

_NOISE = frozenset({"desktop.ini", "thumbs.db"})


def check_key(key: str) -> str:
    r"""Returns the key, or refuses one that some backend would change or hide.

    Azure normalises `a\b`, `./a` and `a/../b`, Windows cuts a trailing dot, and a folder may not
    be left through `..`: such a key would name something else than it says.

    Raises:
        StoreError: the key is not portable.
    """
    parts = key.split("/")
    if (
        len(key) > _MAX_KEY
        or any(part in ("", ".", "..") or part.endswith((".", " ")) or is_noise(part) for part in parts)
        or _FORBIDDEN.search(key)
    ):
        raise StoreError(f"{key!r} is not a portable store key")
    return key


def is_noise(name: str) -> bool:
    """Whether a file name is a temporary file, a dotfile or what a desktop leaves behind."""
    return name.startswith((".", "~$")) or name.endswith((".part", ".tmp")) or name.lower() in _NOISE
