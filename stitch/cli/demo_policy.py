"""`demo --policy`: the `[policy]` table of every site's stitch.toml."""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path

from stitch.files import disk


class DemoPolicy(StrEnum):
    """When a demo's rounds close."""

    ALL_EXPECTED = "all_expected"
    BUFFERED = "buffered"


def settings_of(policy: DemoPolicy, *, sites: int) -> dict[str, str]:
    """The table's keys with TOML values; a buffer that one site fewer than all fill."""
    if policy is DemoPolicy.ALL_EXPECTED:
        return {"require": '"all_expected"'}
    return {
        "require": '"buffered"',
        "buffer_size": str(max(1, sites - 1)),
        "window_seconds": "20",
        "max_staleness": "4",
        "weighting": '"polynomial(0.5)"',
    }


def set_policy(toml: Path, policy: DemoPolicy, *, sites: int) -> None:
    """Write the table into a project's settings.

    Raises:
        DiskError: the file cannot be written.
    """
    with disk(toml):
        text = toml.read_text(encoding="utf-8-sig")
        text = with_table(text, "policy", settings_of(policy, sites=sites))
        toml.write_text(text, encoding="utf-8", newline="\n")


def with_table(text: str, name: str, settings: dict[str, str]) -> str:
    """The TOML text with a table of these keys alone: where it stands, else at the end."""
    body = "".join(f"{key} = {value}\n" for key, value in settings.items())
    table = re.compile(rf"^[ \t]*\[{name}\][^\n]*\n(?:(?![ \t]*\[).*(?:\n|\Z))*", re.MULTILINE)
    if table.search(text) is None:
        return f"{text.rstrip()}\n\n[{name}]\n{body}"
    return table.sub(lambda _: f"[{name}]\n{body}\n", text, count=1)
