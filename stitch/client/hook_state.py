"""The train hook's private state: committed with a seal, handed on to the next pass, never uploaded."""

from __future__ import annotations

import shutil

from stitch.files import disk
from stitch.mirror import Mirror, Stage


def carry_state(mirror: Mirror, stage: Stage) -> None:
    """Copy the state of the newest pass of this lane that was sealed here before the stage's, as committed.

    Raises:
        DiskError: it cannot be copied.
    """
    for ref in reversed(mirror.passes(stage.ref.lane)):
        state = mirror.root / ref.folder / "state"
        if ref.number < stage.ref.number and state.is_dir():
            with disk(stage.state_dir):
                shutil.copytree(state, stage.state_dir)
            return
