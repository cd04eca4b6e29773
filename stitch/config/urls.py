"""Store URLs as people receive them: mangled by mail scanners, quoting and copying."""

from __future__ import annotations


def repair_url(text: str) -> tuple[str, list[str]]:
    """The URL that `text` means, and a note for each thing mended."""
    return text.strip(), []
