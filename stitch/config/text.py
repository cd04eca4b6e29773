"""Reading the files that people edit, whatever their editor made of the encoding, and writing them whole."""

from __future__ import annotations

import codecs
import os
import tempfile
import threading
from pathlib import Path

from stitch.errors import ConfigError

_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def read_text(path: Path) -> str:
    r"""The file's text with `\n` line ends: UTF-8 with or without a BOM, or UTF-16 with one.

    UTF-16 is what `>` writes in Windows PowerShell 5.

    Raises:
        ConfigError: unreadable, or in another encoding.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ConfigError(
            f"{path.name} cannot be read: {error.strerror}", hint=f"Look at the permissions of {path}."
        ) from error
    encoding = "utf-16" if data.startswith(_UTF16) else "utf-8-sig"
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError(
            f"{path.name}, line {line}: not UTF-8 text", hint=f'Save {path} with the encoding "UTF-8".'
        ) from error
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _replace(source: Path, target: Path) -> None:
    """A rename, tried again while an antivirus scanner holds the file (Windows)."""
    for _ in range(20 if os.name == "nt" else 0):
        try:
            source.replace(target)
            return
        except PermissionError:
            threading.Event().wait(0.05)
    source.replace(target)


def write_text(path: Path, text: str) -> None:
    """Replace a file whole: a reader sees the old text or the new one, never a part.

    A new file is readable by its owner alone (POSIX); an existing one keeps its mode, except that
    others never gain access to one that only its owner could read.

    Raises:
        ConfigError: the folder cannot be written.
    """
    temporary = ""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(prefix=path.name + ".", suffix=".tmp", dir=path.parent)
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        _replace(Path(temporary), path)
    except OSError as error:
        if temporary:
            Path(temporary).unlink(missing_ok=True)
        raise ConfigError(
            f"{path.name} cannot be written: {error.strerror}",
            hint=f"Look at the permissions of {path.parent}.",
        ) from error
