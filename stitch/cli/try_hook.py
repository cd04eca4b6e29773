"""`clif-stitch try`: run a hook here and now, and see exactly what would leave."""

from __future__ import annotations

import typer


def try_hook() -> None:
    """Placeholder."""
    raise typer.Exit(1)
