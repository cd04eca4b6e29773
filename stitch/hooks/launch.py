"""The script that every hook's child process starts with: read one request, guard it, run it.

It is run by path, never imported by STITCH: the child holds the standard library, the user's own
packages and nothing of STITCH (law 9). It stays tiny because a script is compiled at every start,
while `child` and `guard` come from the bytecode cache.

    python launch.py REPORT_FD      POSIX: a request on stdin, then commands; see `guard`
    python launch.py -              Windows: a request on stdin; the parent's job object guards
"""

from __future__ import annotations

import importlib
import os
import sys

TYPE_CHECKING = False  # typing itself is not worth its import time here
if TYPE_CHECKING:
    from types import ModuleType


def _own(name: str) -> ModuleType:
    """Import a file of this folder, and leave no trace of it that the user's imports could meet."""
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [here, *(entry for entry in sys.path if entry != here)]
    module = importlib.import_module(name)
    sys.path.remove(here)
    del sys.modules[name]
    return module


# A worker that the hook starts with multiprocessing imports this file again, under another name.
if __name__ == "__main__":
    guard = _own("guard")
    request = guard.read_request(0)
    if sys.argv[1] == "-":
        guard.detach_stdin()
    else:
        guard.guard(request, int(sys.argv[1]))
    sys.exit(_own("child").main(request))
