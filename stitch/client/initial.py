"""The starting model of a run that does not begin with `train(global_path=None)`."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

from stitch import layout
from stitch.client.actor import Actor
from stitch.errors import ConfigError
from stitch.files import disk
from stitch.layout import PassRef
from stitch.mirror import Mirror, Stage
from stitch.store.lanes import Lanes
from stitch.sync.documents import Documents
from stitch.sync.passes import Passes
from stitch.sync.signing import Signing
from stitch.wire import MAX_BYTES, Manifest


def lay_initial_model(actor: Actor, stage: Stage) -> None:
    """Put `initial_model` into the staging folder of pass 0.

    Raises:
        ConfigError: the file, or the earlier run's pass, is not there.
        SignatureRefused: the earlier run was signed, and its pass is not.
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
    """A global of an earlier run in this store, hashed, and signed if that run was.

    Raises:
        ConfigError: it is not there, or nobody here knows whose signature to ask for.
        SignatureRefused: that run's lead did not sign it.
    """
    lanes = replace(actor.lanes, run_id=run_id)
    mirror = Mirror(actor.mirror.root.parent / run_id)
    limits = replace(actor.passes.limits, run_id=run_id)
    documents = Documents(lanes, mirror, signing=_signing_then(actor, lanes, mirror=mirror))
    _, sealed = Passes(lanes, mirror, documents=documents, limits=limits).pull(PassRef(pass_id))
    if sealed is None:
        raise ConfigError(f"initial_model: run {run_id} has no whole global {pass_id} in this store")
    return sealed.model


def _signing_then(actor: Actor, lanes: Lanes, *, mirror: Mirror) -> Signing | None:
    """Whose signatures an earlier run must have; None for one that did not sign.

    The store's word that a run was not signed is nobody's proof: the manifest that this machine kept of
    it counts first. Which key was the lead's then is known from there, or it is the lead's still.
    """
    path, kept = layout.manifest(), mirror.read(layout.manifest())
    got = lanes.read(path, limit=MAX_BYTES)
    data = kept if kept is not None else got[1] if got is not None else None
    if data is None:
        raise ConfigError(
            f"initial_model: there is no run {lanes.run_id} in this store", hint="Correct it in stitch.toml."
        )
    manifest = Manifest.parse(data, source=path)
    then = manifest.settings.get("security")
    ours = actor.settings.security
    if not isinstance(then, dict):
        if ours.sign:
            text = f"run {lanes.run_id} was not signed: nothing proves who made the starting model"
            actor.journal.note(layout.GLOBAL, "warn", text=text)
        return None
    lead_key = then.get("lead_key") if kept is not None else ours.lead_key
    if not isinstance(lead_key, str):
        raise ConfigError(
            f"initial_model: run {lanes.run_id} was signed, and nothing here says by whom",
            hint="Start on the machine that led it, or set [security] lead_key to the key it had.",
        )
    return Signing(lead_key=lead_key, lead=manifest.lead, synced=actor.settings.store.synced)
