"""The project that a verb is called in."""

from __future__ import annotations

import os
from pathlib import Path

from stitch.config import Settings, load_settings, require_urls


def settings_here(*, stores: bool = True) -> Settings:
    """The settings of the project in the current folder.

    Args:
        stores: also require the store URLs that this actor reads and writes.

    Raises:
        ConfigError: there is no project here, or something in it cannot be used.
    """
    settings = load_settings(Path.cwd(), os.environ)
    if stores:
        require_urls(settings)
    return settings


def shown(path: Path) -> str:
    """A path as a person types it: relative to the current folder where it lies below it."""
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)
