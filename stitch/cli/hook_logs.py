"""The hooks' logs under `runs/<run_id>/pass_NNN/`: finding and printing them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path

import typer

from stitch import layout
from stitch.cli.project import shown
from stitch.errors import ConfigError

_FOLDER = re.compile(r"pass_(\d{3,})")


class HookChoice(StrEnum):
    """The hooks that leave a log."""

    LEAVES = "leaves"
    TRAIN = "train"
    AGGREGATE = "aggregate"
    EVALUATE = "evaluate"
    EVALUATE_CENTRAL = "evaluate_central"


def find_logs(runs_dir: Path, *, pass_id: int | None, hook: HookChoice | None) -> list[Path]:
    """The logs of one pass, in the order the hooks run.

    Args:
        runs_dir: `runs/<run_id>`.
        pass_id: which pass; None for the newest that has such a log.
        hook: which hook; None for all.

    Raises:
        ConfigError: there is none.
    """
    names = [f"{one.value}.log" for one in HookChoice if hook in (None, one)]
    numbers = [pass_id] if pass_id is not None else _numbers(runs_dir)
    for number in numbers:
        folder = runs_dir / layout.pass_name(number)
        found = [folder / name for name in names if (folder / name).is_file()]
        if found:
            return found
    what = f"{hook.value} hook" if hook else "hook"
    which = f" in pass {pass_id}" if pass_id is not None else ""
    raise ConfigError(
        f"no {what} has run here{which}: there is no log in {shown(runs_dir)}",
        hint="`clif-stitch try train` runs the hook now; `clif-stitch run` does the real passes.",
    )


def print_logs(logs: Sequence[Path]) -> None:
    """Print each log under a line that names its file."""
    for log in logs:
        typer.echo(f"== {shown(log)}")
        with log.open(encoding="utf-8", errors="replace") as lines:
            for text in lines:
                typer.echo(text.rstrip("\n"))


def _numbers(runs_dir: Path) -> list[int]:
    if not runs_dir.is_dir():
        return []
    matches = (_FOLDER.fullmatch(folder.name) for folder in runs_dir.iterdir())
    return sorted((int(match[1]) for match in matches if match), reverse=True)
