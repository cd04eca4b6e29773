"""The list of commands in `--help`, with every description whole."""

from __future__ import annotations

from typing import Any

from typer.core import TyperGroup

_WHOLE = 400
"""Characters: longer than any first sentence, so that none is cut."""


class WholeHelp(TyperGroup):
    """Lists each command with its whole first sentence, wrapped, where Typer's own list cuts it."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the list; the types are those of the click that Typer carries, by version another module."""
        found = ((name, self.get_command(ctx, name)) for name in self.list_commands(ctx))
        rows = [(name, command.get_short_help_str(_WHOLE)) for name, command in found if command is not None]
        with formatter.section("Commands"):
            formatter.write_dl(rows)
