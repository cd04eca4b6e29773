"""What an actor tells people while it works: `runs/<run_id>/run.log`, and whoever listens.

One timestamped line a step. Nothing here is ever read back (law 4) and nothing here is synced.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal

from stitch.clock import Clock
from stitch.views.words import plain

_LONGEST = 1000
"""Characters of a note: a line, whatever a document tries to say in it."""

Step = Literal[
    "start",
    "join",
    "lease",
    "pull",
    "already_synced",
    "train",
    "aggregate",
    "evaluate",
    "seal",
    "charge",
    "push",
    "wait",
    "set_aside",
    "repair",
    "verdict",
    "publish",
    "retry",
    "warn",
    "error",
    "done",
]


@dataclass(frozen=True, slots=True)
class Note:
    """One thing an actor did or waits for.

    Attributes:
        at: this machine's time, for people.
        lane: "global" or "sites/<id>".
        step: what kind of thing; see `Step`.
        text: one line for a person, ASCII, without secrets.
        pass_id: the pass concerned.
        done, total: bytes of a transfer under way; equal at its end; both 0 for other notes.
        seconds: how long the finished thing took.
    """

    at: datetime
    lane: str
    step: Step
    text: str
    pass_id: int | None = None
    done: int = 0
    total: int = 0
    seconds: float = 0.0

    @property
    def in_flight(self) -> bool:
        """A transfer's progress, not worth a line in a log."""
        return self.total > 0 and self.done < self.total


Listener = Callable[[Note], None]


class Journal:
    """Appends to `run.log` and tells the listeners, from any thread."""

    def __init__(self, runs_dir: Path, clock: Clock, *, listeners: tuple[Listener, ...] = ()) -> None:
        self._path = runs_dir / "run.log"
        self._clock = clock
        self._listeners = listeners
        self._lock = threading.Lock()

    def note(
        self,
        lane: str,
        step: Step,
        *,
        text: str,
        pass_id: int | None = None,
        done: int = 0,
        total: int = 0,
        seconds: float = 0.0,
    ) -> None:
        """Tell of one step. A disk that refuses the log never stops the work."""
        one_line = plain(" ".join(text.split()), most=_LONGEST)  # parts of it may be a stranger's
        note = Note(self._clock.now(), lane, step, one_line, pass_id, done, total, seconds)
        with self._lock:
            if not note.in_flight:
                self._append(note)
            for listener in self._listeners:
                listener(note)

    def _append(self, note: Note) -> None:
        stamp = note.at.strftime("%Y-%m-%dT%H:%M:%SZ")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("a", encoding="utf-8", newline="\n") as log:
                log.write(f"{stamp} {note.lane:<16} {note.step:<14} {note.text}\n")
        except OSError:
            return
