"""Errors as a user sees them: one line of cause, one line of what to do; the traceback in a file."""

from __future__ import annotations

import secrets
import tempfile
import traceback
from datetime import UTC, datetime
from pathlib import Path

import typer

from stitch.errors import StitchError
from stitch.store import redact

_INTERNAL = 70


def complain(error: StitchError) -> None:
    """Print an error's two lines on stderr, in ASCII and without a token."""
    typer.echo(f"error: {_line(str(error))}", err=True)
    typer.echo(f"do:    {_line(error.hint)}", err=True)


def report_crash(error: Exception) -> int:
    """Keep the traceback of a defect in a file and say where; returns the exit code."""
    where = _keep("".join(traceback.format_exception(error)))
    typer.echo(f"error: a defect of clif-stitch: {type(error).__name__}: {_line(str(error))[:200]}", err=True)
    typer.echo(f"do:    report it with the file {where}; running the same command again is safe", err=True)
    return _INTERNAL


def _keep(text: str) -> str:
    """Into the project's `runs/`, where humans look; else into the temporary folder."""
    name = f"crash-{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(2)}.txt"
    runs = Path.cwd() / "runs"
    for folder in (runs, Path(tempfile.gettempdir())):
        if folder is runs and not (Path.cwd() / "stitch.toml").is_file():
            continue
        try:
            folder.mkdir(exist_ok=True)
            (folder / name).write_text(redact(text), encoding="utf-8", errors="backslashreplace")
        except OSError:
            continue
        return str(folder / name)
    return "(no folder could be written)"


def _line(text: str) -> str:
    return redact(" ".join(text.split())).encode("ascii", "backslashreplace").decode("ascii")
