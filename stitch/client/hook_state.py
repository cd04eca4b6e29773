"""The train hook's private state: committed with a seal, handed on to the next pass, never uploaded."""

from __future__ import annotations

import os
import shutil
import stat

from stitch.files import disk
from stitch.mirror import Mirror, Stage


def carry_state(mirror: Mirror, stage: Stage) -> None:
    """Copy the state of the newest pass of this lane that was sealed here before the stage's, as committed.

    A link stays a link, also one that leads nowhere any more: frameworks leave such beside their checkpoints.

    Raises:
        DiskError: it cannot be copied.
    """
    for ref in reversed(mirror.passes(stage.ref.lane)):
        state = mirror.root / ref.folder / "state"
        if ref.number < stage.ref.number and state.is_dir():
            with disk(stage.state_dir):
                shutil.copytree(state, stage.state_dir, symlinks=True, ignore=_special)
            return


def _special(folder: str, names: list[str]) -> list[str]:
    """Sockets and pipes that a hook left: there is nothing in them to copy."""
    modes = {name: os.lstat(os.path.join(folder, name)).st_mode for name in names}  # noqa: PTH118  copytree's texts
    plain = (stat.S_ISREG, stat.S_ISDIR, stat.S_ISLNK)
    return [name for name, mode in modes.items() if not any(is_a(mode) for is_a in plain)]
