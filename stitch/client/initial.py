"""The starting model of a run that does not begin with `train(global_path=None)`."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

from stitch.client.actor import Actor
from stitch.errors import ConfigError
from stitch.files import disk
from stitch.layout import PassRef
from stitch.mirror import Mirror, Stage
from stitch.sync.documents import Documents
from stitch.sync.passes import Passes


def lay_initial_model(actor: Actor, stage: Stage) -> None:
    """Put `initial_model` into the staging folder of pass 0.

    Raises:
        ConfigError: the file, or the earlier run's pass, is not there.
    """
    wanted = str(actor.settings.initial_model)
    target = stage.model_path(actor.settings.hooks.model_ext)
    if wanted.startswith("run:"):
        run_id, _, name = wanted.removeprefix("run:").partition("/")
        source = _earlier_model(actor, run_id, int(name.removeprefix("pass_")))
    else:
        source = actor.settings.root / wanted
    if not source.is_file():
        raise ConfigError(f"initial_model: {wanted} does not exist", hint="Correct it in stitch.toml.")
    if source.suffix != target.suffix:
        raise ConfigError(f"initial_model: {wanted} is no .{actor.settings.hooks.model_ext} file")
    with disk(target):
        shutil.copyfile(source, target)


def _earlier_model(actor: Actor, run_id: str, pass_id: int) -> Path:
    lanes = replace(actor.lanes, run_id=run_id)
    mirror = Mirror(actor.mirror.root.parent / run_id)
    limits = replace(actor.passes.limits, run_id=run_id)
    _, sealed = Passes(lanes, mirror, documents=Documents(lanes, mirror), limits=limits).pull(
        PassRef(pass_id)
    )
    if sealed is None:
        raise ConfigError(f"initial_model: run {run_id} has no whole global {pass_id} in this store")
    return sealed.model
