"""`runs/<run_id>/`: the debug trail of one machine. Never synced, never read on resume."""

from __future__ import annotations

import contextlib
import json
import traceback
from pathlib import Path

from stitch import layout
from stitch.errors import HookError, StitchError
from stitch.files import write_file


class Trail:
    """Where logs and the last error go."""

    def __init__(self, runs_dir: Path) -> None:
        self.runs_dir = runs_dir

    def log(self, pass_id: int, hook: str) -> Path:
        """`pass_NNN/<hook>.log`: everything the hook printed."""
        return self.runs_dir / layout.pass_name(pass_id) / f"{hook}.log"

    def last_error(
        self, error: StitchError, *, pass_id: int | None, phase: str, model_path: Path | None
    ) -> None:
        """Write `last_error.json`. A disk that refuses it never hides the error itself."""
        hook = error.hook if isinstance(error, HookError) else ""
        detail = error.detail if isinstance(error, HookError) else ""
        record = {
            "pass": pass_id,
            "phase": phase,
            "hook": hook or None,
            "error": str(error),
            "hint": error.hint,
            "traceback": detail or "".join(traceback.format_exception(error)),
            "model_path": str(model_path) if model_path else None,
            "log": str(self.log(pass_id, hook)) if hook and pass_id is not None else None,
        }
        with contextlib.suppress(OSError):
            text = json.dumps(record, indent=2, ensure_ascii=False)
            write_file(self.runs_dir / "last_error.json", text.encode("utf-8", "replace"), durable=False)


def own_words(error: StitchError) -> str:
    """What the hook itself said, the last line of its traceback: leaves only by opt-in (law 8)."""
    lines = error.detail.strip().splitlines() if isinstance(error, HookError) else []
    return (lines[-1] if lines else str(error))[:500]
