"""What `run` shows while it works: a live table in a terminal, plain lines everywhere else."""

from __future__ import annotations

import threading
from collections import deque
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from types import TracebackType
from typing import Protocol, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from stitch import layout
from stitch.cli.saying import spoken
from stitch.client.journal import Note
from stitch.views.render import table
from stitch.views.words import plain, rate, size, span

_LINES = 8
_BAR = 24
_RATED = 1_000_000
"""Bytes of a transfer: of fewer the rate says nothing but how long a request takes."""

STORE = "store"
"""Stands for a lane in notes on a store that does not answer."""


class Display(AbstractContextManager["Display"], Protocol):
    """A listener that is entered before the work and left after it."""

    def __call__(self, note: Note) -> None:
        """Show one note; called from any thread."""
        ...


def display(console: Console, *, plain_lines: bool) -> Display:
    """The live table where the console is a terminal and nobody asked for lines."""
    return LiveTable(console) if console.is_terminal and not plain_lines else PlainLines(console)


def who(lane: str) -> str:
    """A lane as a person calls it: the site, or "global"."""
    return layout.lane_site(lane) or lane


def line(note: Note) -> str:
    """`2026-11-29 18:01:02Z  rush  push  pass 3: 4.2 MB in 0.3 s (14.0 MB/s)`."""
    speed = rate(note.total, note.seconds) if note.total >= _RATED else ""
    text = plain(note.text, most=400) + (f" ({speed})" if speed else "")
    return f"{note.at:%Y-%m-%d %H:%M:%SZ}  {who(note.lane)}  {note.step}  {text}"


class PlainLines:
    """One timestamped ASCII line a note, for logs, Task Scheduler and CI."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing to put away."""

    def __call__(self, note: Note) -> None:
        """Print the note, unless it is a transfer's progress."""
        if not note.in_flight:
            self._console.out(spoken(line(note), self._console.file, indent=2), highlight=False)


class LiveTable:
    """What each lane of this process does, the transfer under way, and the newest lines."""

    def __init__(self, console: Console) -> None:
        self._lock = threading.Lock()
        self._lanes: dict[str, Note] = {}
        self._transfers: dict[str, Note] = {}
        self._lines: deque[str] = deque(maxlen=_LINES)
        self._live = Live(get_renderable=self.view, console=console, refresh_per_second=4)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def __call__(self, note: Note) -> None:
        """Remember the note; the table is redrawn four times a second."""
        with self._lock:
            if note.in_flight:
                self._transfers[note.lane] = note
                return
            self._transfers.pop(note.lane, None)
            self._lanes.pop(STORE, None)  # it answers again, or says anew that it does not
            self._lanes[note.lane] = note
            self._lines.append(line(note))

    def view(self) -> RenderableType:
        """The picture of this moment."""
        with self._lock:
            lanes, transfers = dict(self._lanes), dict(self._transfers)
            lines = list(self._lines)
        if not lanes and not transfers:
            return Text("asking the store")
        grid = table("lane", "doing", "pass", "for", "what", numbers=("pass",))
        for lane, note in lanes.items():
            past = max(0.0, (datetime.now(UTC) - note.at).total_seconds())
            number = "-" if note.pass_id is None else str(note.pass_id)
            grid.add_row(who(lane), note.step, number, span(past), plain(note.text, most=120))
        bars = [Text(f"{who(lane)}  {bar(note)}") for lane, note in transfers.items()]
        return Group(grid, *bars, "", *(Text(text, style="dim") for text in lines))


def bar(note: Note) -> str:
    """`push [########........] 1.9 of 4.2 MB  14.0 MB/s`, for a transfer under way."""
    filled = round(_BAR * note.done / note.total)
    picture = "#" * filled + "." * (_BAR - filled)
    amount = f"{size(note.done)} of {size(note.total)}"
    return f"{note.step} [{picture}] {amount}  {rate(note.done, note.seconds)}".rstrip()
