"""The `[privacy]` table as a value, with what its keys must be among themselves and beside others.

All of it is looked at before any file is written: a promise that cannot hold is refused at the start.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from stitch.config.bridge import require_tensors
from stitch.config.hooks import Hooks, HookSpec
from stitch.config.names import is_device_name
from stitch.config.schema import PrivacyTable, StitchFile
from stitch.config.site_file import SiteFile
from stitch.errors import ConfigError

CENTRAL = "stitch.privacy.central:aggregate"
"""The aggregate hook of `mode = "central"`: noise can be told only for a mean whose terms are bounded."""

_DATASET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")
_OF_A_MODE = ("clip", "noise_multiplier", "epsilon", "delta", "adjacency", "data_free_start", "frozen")
_PAGE = "docs/privacy.md tells what each key means."


@dataclass(frozen=True, slots=True)
class Privacy:
    """What happens to a model before it may leave, and what it may cost (docs/privacy.md).

    Attributes:
        mode: "local": each site clips and adds noise; "central": sites clip, the lead adds noise once;
            None: neither.
        clip: the most that the L2 norm of a delta may be.
        noise_multiplier: the noise's standard deviation divided by `clip`; None for the least with
            which `num_passes` passes stay within the budget.
        epsilon, delta: what each site's data set may give away in all runs together.
        adjacency: what must not be told apart, see `rounds.accountant.Adjacency`.
        data_free_start: the hook that makes global 0 is given an empty data folder.
        groups: beginnings of the tensors' names that may leave; None for any.
        frozen: beginnings of the names of tensors that no site may change: they leave as the global's.
        pre_release: the site's own transform of its trained model, before all others.
        dataset: this site's own: which data its budget is of.
        journal_dir: this site's own: where it keeps its journals; None for `privacy/` in the project.
    """

    mode: Literal["local", "central"] | None = None
    clip: float = 0.0
    noise_multiplier: float | None = None
    epsilon: float = 0.0
    delta: float = 0.0
    adjacency: Literal["add_remove", "replace"] = "add_remove"
    data_free_start: bool = False
    groups: tuple[str, ...] | None = None
    frozen: tuple[str, ...] = ()
    pre_release: HookSpec | None = None
    dataset: str = "default"
    journal_dir: Path | None = None

    @property
    def facts(self) -> dict[str, object]:
        """What every actor must agree on: whatever was not left as it is by default."""
        default, own = Privacy(), ("pre_release", "dataset", "journal_dir")
        return {
            name: value
            for name, value in asdict(self).items()
            if name not in own and value != getattr(default, name)
        }


def read_privacy(toml: StitchFile, file: SiteFile, *, root: Path, where: str) -> Privacy:
    """Check the table, and add what this site's own file says of its budget.

    Args:
        toml: the whole file.
        file: the site's own.
        root: the project folder.
        where: the name of the file that the table stands in.

    Raises:
        ConfigError: noise without a clip, a mode without a budget or without a starting model that
            shows no data, a format that cannot be opened, or a transform at the lead beside one at the
            sites.
    """
    table = toml.privacy
    given = table.model_dump(exclude_unset=True)
    if table.mode is None:
        _refuse_without_mode(given, where=where)
    else:
        _check_mode(toml, given, where=where)
    if table.mode or table.groups:
        require_tensors(toml.hooks.model_ext, table="privacy", file=where)
    if toml.hooks.pre_aggregate is not None and (table.mode or table.pre_release):
        what = f'privacy.mode = "{table.mode}"' if table.mode else "privacy.pre_release"
        raise ConfigError(
            f"{where}: hooks.pre_aggregate cannot be combined with {what}",
            hint="What was clipped, noised or aligned may not be altered at the lead: use pre_release.",
        )
    for name in ("groups", "frozen", "pre_release"):
        if isinstance(given.get(name), list):
            given[name] = tuple(given[name])
    return Privacy(**given, **_own(file, root=root))


def private_hooks(hooks: Hooks, table: PrivacyTable) -> Hooks:
    """With noise at the lead, the one aggregate hook that the noise is told for."""
    return replace(hooks, aggregate=CENTRAL) if table.mode == "central" else hooks


def _refuse_without_mode(given: dict[str, Any], *, where: str) -> None:
    loose = [name for name in _OF_A_MODE if name in given]
    if "noise_multiplier" in given and "clip" not in given:
        _refuse_noise_alone(where)
    if loose:
        raise ConfigError(
            f"{where}: privacy.{loose[0]} means nothing without privacy.mode",
            hint='Add mode = "local" (noise at each site) or "central" (noise at the lead).',
        )


def _check_mode(toml: StitchFile, given: dict[str, Any], *, where: str) -> None:
    if "clip" not in given:
        _refuse_noise_alone(where)
    for name in ("epsilon", "delta"):
        if name not in given:
            raise ConfigError(
                f"{where}: privacy.{name} is missing: what may each site's data give away in all?",
                hint="`clif-stitch privacy plan` shows what a budget buys.",
            )
    if toml.initial_model is None and not given.get("data_free_start"):
        raise ConfigError(
            f"{where}: privacy.mode needs a starting model that was made without data",
            hint="Give initial_model, or data_free_start = true: train(None) then sees an empty data folder.",
        )
    if given["mode"] == "central":
        chosen = [name for name in ("aggregate", "strategy") if getattr(toml.hooks, name) is not None]
        if chosen:
            raise ConfigError(
                f'{where}: hooks.{chosen[0]} cannot be chosen with privacy.mode = "central"',
                hint="Remove it: the noise is told for the plain mean that clif-stitch takes itself.",
            )
        if toml.integrity.reproduce not in (None, "off"):
            raise ConfigError(
                f'{where}: integrity.reproduce means nothing with privacy.mode = "central"',
                hint="Noise that could be made again could be taken away again: remove it.",
            )


def _refuse_noise_alone(where: str) -> None:
    raise ConfigError(
        f"{where}: privacy.clip is missing: noise without a clip protects nothing", hint=f"Add clip. {_PAGE}"
    )


def _own(file: SiteFile, *, root: Path) -> dict[str, Any]:
    """What a site says of its budget: whose it is, and where its journal lies."""
    own: dict[str, Any] = {}
    dataset = file.known.get("dataset")
    if dataset is not None:
        if not _DATASET.match(dataset) or is_device_name(dataset):
            raise ConfigError(
                f"{file.name}: {dataset[:40]!a} cannot name a data set",
                hint="Use 1 to 64 of letters, digits and . _ -, beginning with a letter or digit.",
            )
        own["dataset"] = dataset
    if file.known.get("privacy_directory"):
        own["journal_dir"] = root / Path(file.known["privacy_directory"]).expanduser()
    return own
