"""The command line as if it ran elsewhere: on another machine, or on a disk that refuses to write.

For accounts that may have neither (see `places.py`): `as_if.py [options] python -m stitch.cli VERB ...`.
"""

from __future__ import annotations

import argparse
import errno
import functools
import os
import shutil
import signal
import sys
import threading
from pathlib import Path
from typing import NamedTuple

from stitch.cli.app import main
from stitch.client import Setup
from stitch.loops import entrances

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT


class _Usage(NamedTuple):
    total: int
    used: int
    free: int


def as_if_on(host: str) -> None:
    """Give this process's actors another host name."""
    entrances.Setup = functools.partial(Setup, host=host)  # type: ignore[assignment,attr-defined]  # where run and step make it


def as_if_full(at: int) -> None:
    """Refuse longer files, to hooks too, and say that nothing is free."""
    import resource  # noqa: PLC0415  POSIX's alone

    resource.setrlimit(resource.RLIMIT_FSIZE, (at, at))
    shutil.disk_usage = lambda path: _Usage(at, at, 0)  # type: ignore[assignment,return-value]  # all that is asked of it


def as_if_refusing(folder: str, after: int, number: int) -> None:
    """Refuse to write a new file or folder below `folder`, after so many that went well; 0 kills instead."""
    lock, done = threading.Lock(), 0

    def look(event: str, values: tuple[object, ...]) -> None:
        nonlocal done
        if event not in ("open", "os.mkdir"):
            return
        writing = event == "os.mkdir" or (isinstance(values[2], int) and bool(values[2] & _WRITING))
        path = values[0]
        if not writing or not isinstance(path, str | os.PathLike) or not str(path).startswith(folder):
            return
        with lock:
            done += 1
            if done > after and not number:
                os.kill(os.getpid(), signal.SIGKILL)
            if done > after:
                raise OSError(number, os.strerror(number))

    sys.addaudithook(look)


if __name__ == "__main__":
    wanted = argparse.ArgumentParser()
    wanted.add_argument("--host", default="")
    wanted.add_argument("--full", type=int, default=0, metavar="BYTES")
    wanted.add_argument("--refuse", default="", metavar="FOLDER")
    wanted.add_argument("--after", type=int, default=0)
    wanted.add_argument("--error", default="ENOSPC", help="its name, or KILL")
    wanted.add_argument("command", nargs=argparse.REMAINDER)
    asked = wanted.parse_args()
    if asked.host:
        as_if_on(asked.host)
    if asked.full:
        as_if_full(asked.full)
    if asked.refuse:
        as_if_refusing(str(Path(asked.refuse)), asked.after, getattr(errno, asked.error, 0))
    main(asked.command[asked.command.index("stitch.cli") + 1 :])
