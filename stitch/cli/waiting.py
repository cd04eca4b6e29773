"""A line with the time that has passed, for work that may be silent for long."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.live import Live
from rich.text import Text

from stitch.clock import SystemClock
from stitch.views.words import span


@contextmanager
def sign_of_life(out: Console, what: str) -> Iterator[None]:
    """In a terminal, `what: 12 s` counts on at the bottom until the context ends; elsewhere nothing is shown.

    Args:
        out: what is printed here meanwhile appears above the line.
        what: the work, such as "train runs".
    """
    if not out.is_terminal:
        yield
        return
    clock = SystemClock()
    begun = clock.monotonic()

    def line() -> Text:
        return Text(f"{what}: {span(clock.monotonic() - begun)}", style="dim")

    with Live(get_renderable=line, console=out, refresh_per_second=2, transient=True):
        yield
