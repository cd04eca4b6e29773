"""The `[hooks]` table as a value: which code of the user is called."""

from __future__ import annotations

from dataclasses import dataclass

from stitch.config import names
from stitch.config.bridge import hooks_of
from stitch.config.schema import StitchFile

HookSpec = str | tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Hooks:
    """The user's code: `"path/file.py:function"`, `"package.module:function"`, or a command.

    Files and commands are relative to the project folder; a module is the project's or installed.
    `leaves` is a Python function alone: it yields what the dataset commitment covers. `client` and
    `strategy` are classes, of which `stitch.learning` makes the hooks (`config/bridge.py`).
    `pre_aggregate` is the lead's own transform of each input, before they are aggregated.
    """

    train: HookSpec = "code/train.py:train"
    aggregate: HookSpec = "code/aggregate.py:aggregate"
    evaluate: HookSpec | None = None
    evaluate_central: HookSpec | None = None
    diagnose: HookSpec | None = None
    pre_aggregate: HookSpec | None = None
    admit: HookSpec | None = None
    leaves: str | None = None
    client: str | None = None
    strategy: str | None = None
    model_ext: str = "npz"
    contract: str = "1"
    timeout_minutes: float | None = None


def read_hooks(toml: StitchFile, *, file: str) -> Hooks:
    """Check the table, and make the hooks of a client and a strategy where these are given.

    Args:
        toml: the whole file.
        file: its name, for messages.

    Raises:
        ConfigError: a hook given twice over, a strategy's options without a strategy, or an ending that
            no model can have.
    """
    table = toml.hooks
    given = hooks_of(table.model_dump(exclude_unset=True), options=bool(toml.strategy), file=file)
    for hook in ("train", "aggregate", "evaluate", "evaluate_central", "diagnose", "pre_aggregate", "admit"):
        if hook in given:
            given[hook] = _spec(given[hook])
    if table.model_ext is not None:
        names.model_ext(table.model_ext, where=f"{file}: hooks.model_ext")
    return Hooks(**given)


def _spec(value: str | list[str]) -> HookSpec:
    return value if isinstance(value, str) else tuple(value)
