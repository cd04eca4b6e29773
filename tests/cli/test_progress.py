"""What one note of an actor becomes: a plain line, or a transfer's bar."""

from __future__ import annotations

import io
from datetime import UTC, datetime

from stitch.cli.progress import LiveTable, PlainLines, bar, display, line
from stitch.client.journal import Note
from stitch.views.render import console

AT = datetime(2026, 11, 29, 18, 1, 2, tzinfo=UTC)
PUSHED = Note(AT, "sites/rush", "push", "pass 3: 4.2 MB in 0.3 s", 3, 4_200_000, 4_200_000, 0.3)
PUSHING = Note(AT, "sites/rush", "push", "pass 3", 3, 2_100_000, 4_200_000, 0.15)


def test_a_finished_transfer_is_a_line_with_its_rate() -> None:
    assert line(PUSHED) == "2026-11-29 18:01:02Z  rush  push  pass 3: 4.2 MB in 0.3 s (14.0 MB/s)"


def test_the_leads_lane_is_called_global() -> None:
    assert line(Note(AT, "global", "done", "ended")).split("  ")[1] == "global"


def test_a_transfer_under_way_is_a_bar_with_bytes_and_rate() -> None:
    assert bar(PUSHING) == "push [############............] 2.1 MB of 4.2 MB  14.0 MB/s"


def test_plain_lines_leave_out_what_is_under_way() -> None:
    out = io.StringIO()
    with PlainLines(console(out)) as listener:
        listener(PUSHING)
        listener(PUSHED)
    assert out.getvalue().count("\n") == 1


def test_the_live_table_shows_the_bar_until_the_transfer_ends() -> None:
    screen = console(io.StringIO())
    screen.width = 80
    live = LiveTable(screen)

    def seen() -> str:
        with screen.capture() as captured:
            screen.print(live.view())
        return captured.get()

    live(PUSHING)
    assert "push [####" in seen()
    live(PUSHED)
    assert "push [####" not in seen()
    assert "(14.0 MB/s)" in seen()
    assert seen().isascii()


def test_only_a_terminal_gets_the_live_table() -> None:
    assert isinstance(display(console(io.StringIO()), plain_lines=False), PlainLines)
