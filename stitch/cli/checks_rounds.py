"""Whether the lead's own aggregate hook knows that a buffered round has passes from older globals."""

from __future__ import annotations

from collections.abc import Iterator

from stitch.cli.checks import Check, warn
from stitch.config.settings import Settings
from stitch.errors import ConfigError
from stitch.hooks.spec import SCRIPTS, hook_name, hook_sources

_WORDS = (b"bases_dir", b"round.json")
"""What says which global a pass was trained from, and how much it counts: a hook has to read one of them."""


def stale_passes(settings: Settings) -> Iterator[Check]:
    """Warn of a hook that can only take a stale pass for a fresh one; strategies and our own mean know them.

    A program that is no script cannot be looked into: nothing is said of it.
    """
    spec, private = settings.hooks.aggregate, settings.privacy.mode == "central"
    if not settings.is_lead or not settings.policy.buffered or settings.hooks.strategy or private:
        return
    try:
        files = hook_sources(settings.root, [spec]).values()
    except ConfigError:
        return  # said where the hooks are looked for
    if not files or any(file.suffix.lower() not in SCRIPTS for file in files):
        return
    sources = [file.read_bytes().lower() for file in files]
    if not any(word in source for source in sources for word in _WORDS):
        yield warn(
            "hook aggregate",
            f"{hook_name(spec)} reads neither bases_dir nor round.json: stale passes undo newer globals",
            todo="Add each pass's change from its own base (docs/asynchronous.md), or use a strategy.",
        )
