"""The hook calls of each actor: which arguments, which paths (docs/hooks.md)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from stitch.client.filter_calls import hook_config, private_aggregate, without_data
from stitch.client.trail import Trail
from stitch.config.hooks import HookSpec
from stitch.config.settings import Settings
from stitch.files import disk
from stitch.hooks.call import HookCall, HookName
from stitch.layout import PassRef
from stitch.mirror import Stage
from stitch.wire import Seal


def train_config(settings: Settings, said: Mapping[str, object] | None = None) -> dict[str, object]:
    """The train hook's `config`: over the `[config]` table `[train] config`, over both what the global says.

    Args:
        settings: this site's.
        said: the config that the seal of the global carries (`Seal.next_config`).
    """
    own = hook_config(settings)
    return {**own, **settings.train_config, **(said or {}), "site": own["site"]}


def train_call(
    settings: Settings,
    stage: Stage,
    *,
    base: Path | None,
    pass_id: int,
    seed: int,
    said: Mapping[str, object] | None = None,
) -> HookCall:
    """Train site pass `pass_id` from the global at `base`; None makes the starting model.

    Args:
        settings: this site's.
        stage: where the model, the state and the scratch go.
        base: the global's model file.
        pass_id: the pass to make.
        seed: the round's seed.
        said: the config that the global's seal carries.
    """
    with disk(stage.state_dir):
        stage.state_dir.mkdir(parents=True, exist_ok=True)
    call = _call(
        settings,
        "train",
        spec=settings.hooks.train,
        stage=stage,
        pass_id=pass_id,
        required={
            "global_path": _text(base),
            "out_path": _text(_out(settings, stage)),
            "data_dir": str(settings.data_dir),
        },
        optional={
            "state_dir": str(stage.state_dir),
            "round_seed": seed,
            "config": train_config(settings, said),
            "site_id": settings.site,
            **_classes(settings),
            "config_out_path": str(_config_out(stage)) if base is None else None,
        },
    )
    return call if base or not settings.privacy.data_free_start else without_data(call, stage)


def aggregate_call(
    settings: Settings,
    stage: Stage,
    *,
    base: Path,
    bases: Path,
    pass_id: int,
    seed: int,
    n_samples: int,
    outer: Path | None = None,
) -> HookCall:
    """Aggregate the inputs in `stage.inputs_dir` into global `pass_id`.

    Args:
        settings: the lead's.
        stage: holds the inputs; takes the model.
        base: the previous global's model file.
        bases: `pass_NNN/model.<ext>` of every global that an input was trained from.
        pass_id: the global to make.
        seed: the round's seed.
        n_samples: the inputs' sum, used when the hook returns none.
        outer: the state that the previous global carries (`carried.outer_state`).
    """
    call = _call(
        settings,
        "aggregate",
        spec=settings.hooks.aggregate,
        stage=stage,
        pass_id=pass_id,
        required={"site_dir": str(stage.inputs_dir), "out_path": _text(_out(settings, stage))},
        optional={
            "data_dir": str(settings.data_dir),
            "global_path": str(base),
            "bases_dir": str(bases),
            "round_seed": seed,
            "outer_path": _text(outer),
            "outer_out_path": str(stage.pass_dir / f"outer_state.{settings.hooks.model_ext}"),
            "config_out_path": str(_config_out(stage)),
            **_classes(settings),
        },
        n_samples=n_samples,
    )
    return private_aggregate(settings, call)


def with_evaluations(call: HookCall, told: Sequence[Mapping[str, object]]) -> HookCall:
    """The aggregate call with what the sites said of the previous global, for a strategy's own summary.

    It is not given when the global is made again: model, state and config must not depend on it.
    """
    return replace(call, optional={**call.optional, "evaluation_results": list(told)}) if told else call


def evaluate_call(
    settings: Settings,
    stage: Stage,
    *,
    spec: HookSpec,
    model: Path,
    pass_id: int,
    hook: HookName = "evaluate",
) -> HookCall:
    """Evaluate a global on this site's held-out data, or on the lead's validation set; makes no model."""
    return HookCall(
        hook=hook,
        spec=spec,
        root=settings.root,
        required={"global_path": str(model), "data_dir": str(settings.data_dir)},
        optional={
            "pass_id": pass_id,
            "config": hook_config(settings),
            "site_id": settings.site,
            **_classes(settings),
        },
        out_path=None,
        work_dir=stage.work_dir,
        log_path=Trail(settings.runs_dir).log(pass_id, hook),
        timeout_s=_timeout(settings),
    )


def diagnose_call(
    settings: Settings, stage: Stage, *, spec: HookSpec, candidate: Path, base: Path, pass_id: int
) -> HookCall:
    """Look at the candidate for global `pass_id` before it is sealed; makes no model.

    Args:
        settings: the lead's.
        stage: the aggregation's; its inputs are readable.
        spec: the hook.
        candidate: a copy of the candidate.
        base: the previous global's model file.
        pass_id: the global to be.
    """
    return HookCall(
        hook="diagnose",
        spec=spec,
        root=settings.root,
        required={"candidate_path": str(candidate), "global_path": str(base)},
        optional={
            "pass_id": pass_id,
            "config": hook_config(settings),
            "site_dir": str(stage.inputs_dir),
            "data_dir": str(settings.data_dir),
        },
        out_path=None,
        work_dir=stage.work_dir,
        log_path=Trail(settings.runs_dir).log(pass_id, "diagnose"),
        timeout_s=_timeout(settings),
        default_n_samples=0,
    )


def admit_call(
    settings: Settings,
    spec: HookSpec,
    *,
    seal: Seal,
    ref: PassRef,
    model: Path,
    base: Path,
    reason: Path,
) -> HookCall:
    """Look into a site's model before a round uses it.

    Args:
        settings: the lead's, or the site's own.
        spec: the hook.
        seal: the pass's.
        ref: where the pass lies.
        model: its model file.
        base: the global that it was trained from.
        reason: takes one line if the pass shall be left out; its folder is the scratch folder.
    """
    return HookCall(
        hook="admit",
        spec=spec,
        root=settings.root,
        required={"model_path": str(model), "base_path": str(base), "reason_path": str(reason)},
        optional={
            "site_id": ref.site,
            "n_samples": seal.n_samples,
            "pass_id": seal.pass_id,
            "config": hook_config(settings),
        },
        out_path=None,
        work_dir=reason.parent,
        log_path=Trail(settings.runs_dir).log(seal.pass_id, "admit"),
        timeout_s=_timeout(settings),
        default_n_samples=0,
    )


def leaves_call(settings: Settings, *, spec: str, pass_id: int, folder: Path) -> HookCall:
    """Hash what the site's leaves hook yields of its data; `out_path` takes one digest a leaf."""
    return HookCall(
        hook="leaves",
        spec=spec,
        root=settings.root,
        required={"data_dir": str(settings.data_dir)},
        optional={"pass_id": pass_id, "config": hook_config(settings)},
        out_path=folder / "leaves.bin",
        work_dir=folder,
        log_path=Trail(settings.runs_dir).log(pass_id, "leaves"),
        timeout_s=_timeout(settings),
    )


def _call(
    settings: Settings,
    hook: HookName,
    *,
    spec: HookSpec,
    stage: Stage,
    pass_id: int,
    required: Mapping[str, object],
    optional: Mapping[str, object],
    n_samples: int | None = None,
) -> HookCall:
    return HookCall(
        hook=hook,
        spec=spec,
        root=settings.root,
        required=required,
        optional={"pass_id": pass_id, "config": hook_config(settings), **optional},
        out_path=_out(settings, stage),
        work_dir=stage.work_dir,
        log_path=Trail(settings.runs_dir).log(pass_id, hook),
        timeout_s=_timeout(settings),
        max_bytes=settings.transfer.max_bytes,
        default_n_samples=n_samples,
    )


def _classes(settings: Settings) -> dict[str, object]:
    """What the hooks of `stitch.learning.bridge` are made of; nothing for hooks that stand for themselves."""
    given: dict[str, object] = {}
    if settings.hooks.client is not None:
        given["client_class"] = settings.hooks.client
    if settings.hooks.strategy is not None:
        given["strategy_class"] = settings.hooks.strategy
        given["strategy_options"] = dict(settings.strategy_options)
        given["strategy_defaults"] = settings.policy.strategy_defaults
        given["train_config"] = {**settings.hyper, **settings.train_config}
    return given


def _config_out(stage: Stage) -> Path:
    return stage.work_dir / "next_config.json"


def _out(settings: Settings, stage: Stage) -> Path:
    return stage.model_path(settings.hooks.model_ext)


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)


def _timeout(settings: Settings) -> float | None:
    minutes = settings.hooks.timeout_minutes
    return None if minutes is None else 60.0 * minutes
