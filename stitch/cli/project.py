"""The project that a verb is called in."""

from __future__ import annotations

import os
import sys
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


def typed_in(folder: Path) -> str:
    """What a person types in `folder` to run this very clif-stitch, where uv would install another.

    Args:
        folder: where they will be: a project that was not installed itself.
    """
    environment = Path(sys.prefix)
    if environment.name != ".venv" or not (environment.parent / "pyproject.toml").is_file():
        return "clif-stitch"
    try:
        source = os.path.relpath(environment.parent, folder)
    except ValueError:  # another drive
        source = str(environment.parent)
    return f"uv run --no-sync --project {quoted(source)} clif-stitch"


def quoted(path: str) -> str:
    """A path as any shell takes it."""
    return f'"{path}"' if " " in path else path
