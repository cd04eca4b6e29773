"""The copies that sync clients and desktops set aside when two machines wrote one file."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Conflict:
    """A file that some program put beside a key instead of overwriting it.

    Attributes:
        key: the key that was meant.
        copy: the name of the copy.
    """

    key: str
    copy: str


_BRACKETED = re.compile(
    r"^(?P<stem>.+?)"
    r"(?:[ _]?\((?:[^()]*conflict[^()]*|\d{1,3})\)|[ _-]?conflict(?:ed)?[ _-]cop(?:y|ies)\b.*)$",
    re.IGNORECASE,
)
_LONGEST = 255
_COPIES = 32
"""Names longer than a disk holds, and copies of copies of copies, are somebody's trick and no conflict."""
_HOSTNAME = re.compile(r"^(?P<stem>.+)-(?P<host>[A-Za-z0-9][A-Za-z0-9-]{1,62})$")


def conflict_of(name: str, known: Collection[str]) -> str:
    """The key that `name` is a conflict copy of, or "".

    `model (conflicted copy 2026-11-29).npz` (Box, Dropbox) and `metrics (1).json` (Explorer,
    OneDrive web) speak for themselves. `metrics-WARD7.json` (OneDrive appends the computer's
    name) counts only beside the file it copies, because keys may hold dashes of their own.
    """
    folder, slash, base = name.rpartition("/")
    if len(base) > _LONGEST:
        return ""
    stem, dot, extension = base.rpartition(".")
    if not dot:
        stem, extension = base, ""
    bracketed = _BRACKETED.match(stem)
    if bracketed:
        return f"{folder}{slash}{bracketed['stem'].rstrip()}{dot}{extension}"
    hostname = _HOSTNAME.match(stem)
    for _ in range(_COPIES):
        if hostname is None:
            break
        original = f"{folder}{slash}{hostname['stem']}{dot}{extension}"
        if original in known:
            return original
        hostname = _HOSTNAME.match(hostname["stem"])
    return ""


def find_conflicts(keys: Iterable[str]) -> tuple[Conflict, ...]:
    """The conflict copies among the names of one listing, in their order."""
    known = dict.fromkeys(keys)
    return tuple(
        Conflict(key=original, copy=name) for name in known if (original := conflict_of(name, known))
    )
