"""Numbers and foreign text as people read them in a terminal: short, and ASCII."""

from __future__ import annotations

from datetime import datetime

_UNITS = ((86_400.0, "d"), (3_600.0, "h"), (60.0, "min"))


def plain(text: str, *, most: int = 200) -> str:
    """Text from a document made safe for a terminal: printable ASCII, one line, cut at `most`."""
    safe = "".join(c if c.isascii() and c.isprintable() else "?" for c in text[: most + 1])
    return safe if len(safe) <= most else safe[: most - 3] + "..."


def span(seconds: float) -> str:
    """A length of time: `4 s`, `12 min`, `3 h`, `2 d`."""
    for size, unit in _UNITS:
        if seconds >= size * 1.5:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def size(count: float) -> str:
    """Bytes: `680 B`, `4.2 MB` (1 MB = 1,000,000 bytes)."""
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"


def rate(count: float, seconds: float) -> str:
    """Bytes a second: `14.0 MB/s`; "" when nothing can be said."""
    return f"{size(count / seconds)}/s" if seconds > 0 and count > 0 else ""


def clock_time(moment: datetime | None) -> str:
    """`2026-11-29 18:01:02Z`, "-" for none."""
    return moment.strftime("%Y-%m-%d %H:%M:%SZ") if moment else "-"


def number(value: float) -> str:
    """A metric: up to four significant places after the point, no noise for whole numbers."""
    if value == int(value) and abs(value) < 1e9:
        return str(int(value))
    return f"{value:.4f}" if 1e-3 <= abs(value) < 1e6 else f"{value:.3g}"


def names(items: tuple[str, ...], *, most: int = 6) -> str:
    """`nu, rush`, or `nu, rush and 12 more`."""
    shown = ", ".join(items[:most])
    return shown if len(items) <= most else f"{shown} and {len(items) - most} more"
