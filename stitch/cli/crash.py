"""Errors as a user sees them: one line of cause, one line of what to do; the traceback in a file."""

from __future__ import annotations

import contextlib
import os
import secrets
import sys
import tempfile
import traceback
from datetime import UTC, datetime
from pathlib import Path

import typer

from stitch.cli.saying import spoken
from stitch.config.load import FILE
from stitch.errors import ConfigError, HookError, StitchError
from stitch.files import write_file
from stitch.store import redact

LAST = "last_error.txt"
"""The traceback of the last error that ended a command here; a hook's is in its `last_error.json`."""

_INTERNAL = 70
_LONGEST = 2000


def complain(error: StitchError) -> None:
    """Print an error's two lines on stderr, without a token; keep its traceback in `runs/`.

    A wrong setting keeps none: its line names the file and the key, and nothing was begun.
    """
    _say(f"error: {_line(str(error))}")
    _say(f"do:    {_line(error.hint)}")
    runs = _runs()
    if runs is None or isinstance(error, HookError | ConfigError):
        return
    text = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ} {_traceback(error)}"
    with contextlib.suppress(OSError):  # a disk that refuses it never hides the error itself
        write_file(runs / LAST, text.encode("utf-8", "backslashreplace"), durable=False)


def report_crash(error: Exception) -> int:
    """Keep the traceback of a defect in a file and say where; returns the exit code."""
    where = _keep(_traceback(error))
    _say(f"error: a defect of clif-stitch: {type(error).__name__}: {_line(str(error))[:200]}")
    _say(f"do:    report it with the file {where}; running the same command again is safe")
    return _INTERNAL


def _keep(text: str) -> str:
    """Into the project's `runs/`, where humans look; else into the temporary folder."""
    name = f"crash-{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(2)}.txt"
    for folder in (_runs(), Path(tempfile.gettempdir())):
        if folder is None:
            continue
        try:
            folder.mkdir(exist_ok=True)
            # For its owner alone: others read in the machine's temporary folder too.
            handle = os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as sink:
                sink.write(text)
        except OSError:
            continue
        return str(folder / name)
    return "(no folder could be written)"


def _runs() -> Path | None:
    """The `runs/` of the project in the current folder; None where there is no project."""
    here = Path.cwd()
    return here / "runs" if (here / FILE).is_file() else None


def _traceback(error: Exception) -> str:
    return redact("".join(traceback.format_exception(error)))


def _line(text: str) -> str:
    """One line without a token."""
    return redact(" ".join(text.split()))[:_LONGEST]


def _say(line: str) -> None:
    """On stderr, as a terminal can take it: what a document says may hold its control sequences."""
    typer.echo(spoken(line, sys.stderr, indent=len("error: ")), err=True)
