"""The last lines of `run` and `step`, and their exit codes."""

from __future__ import annotations

from rich.console import Console

from stitch.cli.project import shown
from stitch.cli.signals import StopSignals
from stitch.config import Settings
from stitch.layout import PassRef
from stitch.loops.drive import Finished
from stitch.rounds import Turn
from stitch.views.words import plain

_STEP_CODES = {"acted": 0, "waiting": 3, "done": 4}


def conclude(out: Console, settings: Settings, *, finished: Finished | None, signals: StopSignals) -> int:
    """Say how `run` ended; returns its exit code."""
    if finished is None:
        out.out("stopped; nothing is lost: the same command continues")
        return signals.exit_code
    out.out(f"run {settings.run_id} is finished: {plain(finished.reason)}")
    if finished.final_pass is None:
        out.out("no global was published")
    else:
        final = PassRef(finished.final_pass).mirror_model(settings.hooks.model_ext)
        out.out(f"final model (pass {finished.final_pass}): {shown(settings.mirror_dir / final)}")
    return 0


def step_code(turn: Turn, *, wanted: bool) -> int:
    """0 acted, 3 waiting, 4 done where `--exit-code` asks for it; else 0."""
    return _STEP_CODES[turn.state] if wanted else 0
