"""Lines of our own for a person: whole words at the width of a terminal, ASCII for everything else."""

from __future__ import annotations

import os
import shutil
import textwrap
from typing import IO

_NARROWEST = 40
"""Columns: what is narrower than this is wrapped by the terminal itself."""


def spoken(text: str, stream: IO[str], *, indent: int = 0) -> str:
    """One line of text as `stream` should show it.

    In a terminal it is wrapped between words, later lines indented, and letters that the console has
    stay letters: a person must know a folder by its name. Elsewhere it stays one line of ASCII, since
    nobody knows who reads a file. Words longer than a line (paths, hashes) are never broken.

    Args:
        text: what to say; control characters in it become "?".
        stream: where it will be written.
        indent: columns before every line but the first.
    """
    safe = "".join(c if c.isprintable() else "?" for c in " ".join(text.split("\n")))
    if not stream.isatty():
        return safe.encode("ascii", "backslashreplace").decode("ascii")
    coding = getattr(stream, "encoding", None) or "ascii"
    width = columns(stream)
    wrapped = textwrap.wrap(
        safe.encode(coding, "backslashreplace").decode(coding),
        max(width, _NARROWEST),
        subsequent_indent=" " * indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return "\n".join(wrapped)


def columns(stream: IO[str]) -> int:
    """The width of the terminal behind `stream`; 80 where it does not say."""
    try:
        wide = os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError):  # no terminal, or a stream without a file behind it
        wide = 0
    return wide or shutil.get_terminal_size((80, 24)).columns
