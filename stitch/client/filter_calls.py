"""The calls of what stands around the hooks: filters before a release, and what private runs withhold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from stitch.client.budget import noise_of
from stitch.client.trail import Trail
from stitch.config.hooks import HookSpec
from stitch.config.settings import Settings
from stitch.files import disk
from stitch.hooks.call import HookCall, HookName
from stitch.mirror import Stage

_RELEASE = "stitch.privacy.release:release"
_COMPRESS = "stitch.privacy.compress:compress"
_EXPAND = "stitch.privacy.compress:expand"
_INSPECT = "stitch.privacy.release:inspect"


def hook_config(settings: Settings) -> dict[str, object]:
    """The hooks' `config`: the `[config]` table, and this site's own file under `site`."""
    return {**settings.hyper, "site": dict(settings.site_config)}


def without_data(call: HookCall, stage: Stage) -> HookCall:
    """The call that makes a starting model, with an empty folder for data: it can show nobody's."""
    empty = stage.work_dir / "no_data"
    with disk(empty):
        empty.mkdir(parents=True, exist_ok=True)
    config = {name: value for name, value in _config(call).items() if name != "site"}
    return replace(
        call,
        required={**call.required, "data_dir": str(empty)},
        optional={**call.optional, "config": config},
    )


def private_aggregate(settings: Settings, call: HookCall) -> HookCall:
    """In a private run the aggregate hook sees the released models alone, never the lead's own data."""
    privacy = settings.privacy
    if privacy.mode is None:
        return call
    optional = {name: value for name, value in call.optional.items() if name != "data_dir"}
    optional["config"] = {name: value for name, value in _config(call).items() if name != "site"}
    if privacy.mode == "central":
        optional["privacy"] = privacy_facts(settings, noise=noise_of(settings))
    return replace(call, optional=optional)


def _config(call: HookCall) -> Mapping[str, object]:
    config = call.optional.get("config")
    return config if isinstance(config, dict) else {}


def pre_release_call(
    settings: Settings, stage: Stage, *, spec: HookSpec, model: Path, base: Path
) -> HookCall:
    """Let the site's own filter transform its trained model; the result goes to another file."""
    number = stage.ref.number
    optional = {
        "config": hook_config(settings),
        "pass_id": number,
        "data_dir": str(settings.data_dir),
        "state_dir": str(stage.state_dir),
    }
    out = _beside(stage, model, name="pre_release")
    return _filter_call(
        settings, stage, "pre_release", spec=spec, model=model, base=base, out=out, optional=optional
    )


def pre_aggregate_call(
    settings: Settings, stage: Stage, *, spec: HookSpec, model: Path, base: Path, site: str
) -> HookCall:
    """Let the lead's own filter transform one input before the inputs are aggregated."""
    optional = {"config": hook_config(settings), "pass_id": stage.ref.number, "site": site}
    out = _beside(stage, model, name="pre_aggregate")
    return _filter_call(
        settings, stage, "pre_aggregate", spec=spec, model=model, base=base, out=out, optional=optional
    )


def release_call(
    settings: Settings, stage: Stage, *, model: Path, raw: Path | None, base: Path, noise: float | None
) -> HookCall:
    """Clip the model's delta and add noise; the add-on does it, in a child.

    Args:
        settings: this site's.
        stage: the training's.
        model: what was trained, or what the pre_release hook made of it.
        raw: what that hook was given, if there is one.
        base: the global that it was trained from.
        noise: the noise multiplier; None leaves the noise to the lead.
    """
    optional = {
        "privacy": privacy_facts(settings, noise=noise),
        "raw_path": None if raw is None else str(raw),
    }
    out = _beside(stage, model, name="release")
    return _filter_call(
        settings, stage, "release", spec=_RELEASE, model=model, base=base, out=out, optional=optional
    )


def compress_call(settings: Settings, stage: Stage, *, model: Path, base: Path) -> HookCall:
    """Make the model that may leave smaller; the add-on does it, in a child."""
    compression = {"kind": settings.compression.kind, "keep": settings.compression.keep}
    optional = {"compression": compression, "state_dir": str(stage.state_dir)}
    out = _beside(stage, model, name="compressed")
    return _filter_call(
        settings, stage, "release", spec=_COMPRESS, model=model, base=base, out=out, optional=optional
    )


def expand_call(settings: Settings, stage: Stage, *, model: Path, base: Path) -> HookCall:
    """Make the model that a compressed input stands for."""
    out = _beside(stage, model, name="expanded")
    return _filter_call(settings, stage, "expand", spec=_EXPAND, model=model, base=base, out=out, optional={})


def inspect_call(settings: Settings, stage: Stage, *, model: Path, raw: Path | None) -> HookCall:
    """Look at the tensors of a model that leaves as it is."""
    optional = {"privacy": privacy_facts(settings, noise=None), "raw_path": None if raw is None else str(raw)}
    return _filter_call(
        settings, stage, "release", spec=_INSPECT, model=model, base=None, out=None, optional=optional
    )


def privacy_facts(settings: Settings, *, noise: float | None) -> dict[str, object]:
    """What the add-on is told of the `[privacy]` table."""
    privacy = settings.privacy
    groups = None if privacy.groups is None else list(privacy.groups)
    return {"clip": privacy.clip, "noise": noise, "groups": groups, "frozen": list(privacy.frozen)}


def _filter_call(
    settings: Settings,
    stage: Stage,
    hook: HookName,
    *,
    spec: HookSpec,
    model: Path,
    base: Path | None,
    out: Path | None,
    optional: Mapping[str, object],
) -> HookCall:
    paths = {"model_path": model, "global_path": base, "out_path": out}
    return HookCall(
        hook=hook,
        spec=spec,
        root=settings.root,
        required={name: str(path) for name, path in paths.items() if path is not None},
        optional=optional,
        out_path=out,
        work_dir=stage.work_dir,
        log_path=Trail(settings.runs_dir).log(stage.ref.number, hook),
        timeout_s=None if settings.hooks.timeout_minutes is None else 60.0 * settings.hooks.timeout_minutes,
        max_bytes=settings.transfer.max_bytes,
        default_n_samples=0,
    )


def _beside(stage: Stage, model: Path, *, name: str) -> Path:
    """A file of the same format in the scratch folder."""
    return stage.work_dir / f"{name}{model.suffix}"
