"""A wheel of this very clif-stitch, for a project that `init` makes from a clone.

A project pins the version that made it, and every site installs that from a package index. A clone
is on no index, or another code under the same version; so the project carries it along.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import resources
from pathlib import Path

from stitch.files import scratch

_WITHIN_S = 300.0
"""Seconds to build it in: the first time, uv fetches the build tool."""


def clone() -> Path | None:
    """The clone that this clif-stitch runs from; None where it was installed as a package."""
    top = Path(str(resources.files("stitch"))).parent
    return top if (top / "pyproject.toml").is_file() and (top / "templates" / "common").is_dir() else None


@contextmanager
def wheel_of(source: Path) -> Iterator[Path | None]:
    """A wheel built from the clone `source`, as long as the context lasts; None where uv cannot build it."""
    uv = os.environ.get("UV") or shutil.which("uv")  # `uv run` names itself
    with scratch() as folder:
        if uv is not None:
            _build([uv, "build", "--quiet", "--wheel", "--out-dir", str(folder), str(source)])
        yield next(folder.glob("clif_stitch-*.whl"), None)


def _build(command: list[str]) -> None:
    """Run it; what it says is dropped, since without a wheel the caller says what to do."""
    try:
        subprocess.run(command, check=False, capture_output=True, timeout=_WITHIN_S)
    except (OSError, subprocess.TimeoutExpired):
        return
