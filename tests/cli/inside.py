"""A verb called in this process: what a person types and sees, without the second that a new Python costs."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from stitch.cli.app import main


class _Pipe(io.TextIOWrapper):
    """A stream as a program has it whose output goes into a file: UTF-8, no terminal."""

    def __init__(self) -> None:
        super().__init__(io.BytesIO(), encoding="utf-8", write_through=True)

    def text(self) -> str:
        """All that was written."""
        kept = self.buffer
        assert isinstance(kept, io.BytesIO)
        return kept.getvalue().decode("utf-8")


def call(words: Sequence[str], *, folder: Path, environ: Mapping[str, str]) -> tuple[int, str, str]:
    """Run a verb to its end, in a folder and with an environment of its own.

    Args:
        words: what stands after `clif-stitch`.
        folder: the current folder meanwhile.
        environ: the whole environment meanwhile.

    Returns:
        Its exit code, and what it printed on stdout and stderr.
    """
    out, err = _Pipe(), _Pipe()
    with (
        pytest.MonkeyPatch.context() as patch,
        _signals_kept(),
        Path(os.devnull).open(encoding="utf-8") as null,
    ):
        for name in os.environ.keys() - environ.keys():
            patch.delenv(name)
        for name, value in environ.items():
            patch.setenv(name, value)
        patch.chdir(folder)
        patch.setattr(sys, "stdin", null)
        patch.setattr(sys, "stdout", out)
        patch.setattr(sys, "stderr", err)
        try:
            main(words)
        except SystemExit as end:
            code = end.code
    return int(code or 0), out.text(), err.text()


@contextlib.contextmanager
def _signals_kept() -> Iterator[None]:
    """A verb must leave this process as it found it."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    assert {number: signal.getsignal(number) for number in before} == before
