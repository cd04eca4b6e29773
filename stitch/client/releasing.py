"""What happens to a trained model before it is sealed: pre_release, clip, noise, allow-list, in children."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import NoReturn, Protocol

from stitch import layout
from stitch.client.budget import noise_of
from stitch.client.filter_calls import (
    compress_call,
    expand_call,
    inspect_call,
    pre_aggregate_call,
    pre_release_call,
    release_call,
)
from stitch.client.trail import own_words
from stitch.config.settings import Settings
from stitch.errors import EgressRefused, HookFailed, TransformDegenerate
from stitch.files import disk, retried
from stitch.hooks.call import HookCall
from stitch.layout import PassRef
from stitch.mirror import Stage
from stitch.rounds.transforms import PRE_RELEASE, clip_name, noise_name


class Laid(Protocol):
    """An input: where it belongs, and the file that it is a copy of."""

    @property
    def ref(self) -> PassRef:
        """Its pass."""
        ...

    @property
    def model(self) -> Path:
        """Its model, as it was sealed."""
        ...


Run = Callable[[HookCall], object]


def release(settings: Settings, stage: Stage, *, base: Path, run: Run) -> tuple[str, ...]:
    """Replace the staged model by the one that may leave.

    What is done is done once: the result is sealed, and a sealed pass is pushed as it is.

    Args:
        settings: the site's.
        stage: holds the trained model.
        base: the model file of the global that it was trained from.
        run: runs a hook.

    Returns:
        The transforms' names, in their order, as the seal tells them.

    Raises:
        EgressRefused: a tensor is in no group that may leave.
        TransformDegenerate: the transform could not be made.
        HookError: the pre_release hook failed.
    """
    privacy = settings.privacy
    model = stage.model_path(settings.hooks.model_ext)
    now, done = model, []
    if privacy.pre_release is not None:
        call = pre_release_call(settings, stage, spec=privacy.pre_release, model=model, base=base)
        now = _run(call, run=run)
        done.append(PRE_RELEASE)
    raw = model if now != model else None
    if privacy.mode is not None:
        noise = noise_of(settings) if privacy.mode == "local" else None
        done.append(clip_name(privacy.clip))
        done += [] if noise is None else [noise_name(noise)]
        call = release_call(settings, stage, model=now, raw=raw, base=base, noise=noise)
        now = _run(call, run=run)
    elif privacy.groups is not None or (raw is not None and _opens(model)):
        _run(inspect_call(settings, stage, model=now, raw=raw), run=run)
    if settings.compression.kind is not None:
        now = _run(compress_call(settings, stage, model=now, base=base), run=run)
        done.append(settings.compression.name)
    if now != model:
        with disk(model):
            retried(lambda: now.replace(model))
    return tuple(done)


def transform_inputs(
    settings: Settings,
    stage: Stage,
    *,
    inputs: Iterable[Laid],
    bases: Path,
    run: Run,
) -> None:
    """Expand each input that was laid out for the aggregate hook, and let pre_aggregate replace it.

    The files in the mirror stay as they were sealed.

    Args:
        settings: the lead's.
        stage: the aggregation's, with its inputs.
        inputs: the passes that were laid out.
        bases: the globals that the inputs were trained from: `pass_NNN/model.<ext>`.
        run: runs a hook.

    Raises:
        HookError: the hook failed.
    """
    spec, packed = settings.hooks.pre_aggregate, settings.compression.kind is not None
    for one in inputs:
        site = str(one.ref.site)
        model = stage.inputs_dir / site / layout.pass_name(one.ref.number) / one.model.name
        base = bases / layout.pass_name(one.ref.number - 1) / one.model.name
        calls = [expand_call(settings, stage, model=model, base=base)] if packed else []
        if spec is not None:
            calls.append(pre_aggregate_call(settings, stage, spec=spec, model=model, base=base, site=site))
        for call in calls:
            made = _run(call, run=run)
            with disk(model):
                retried(partial(made.replace, model))


def site_transforms(settings: Settings) -> tuple[str, ...]:
    """What every site's model must have gone through in a private run."""
    privacy = settings.privacy
    if privacy.mode is None:
        return ()
    clip = clip_name(privacy.clip)
    return (clip,) if privacy.mode == "central" else (clip, noise_name(noise_of(settings)))


def global_transforms(settings: Settings) -> tuple[str, ...]:
    """What the aggregate hook of a private run does to a global, as its seal tells it."""
    privacy = settings.privacy
    if privacy.mode != "central":
        return ()
    return clip_name(privacy.clip), noise_name(noise_of(settings))


def _run(call: HookCall, *, run: Run) -> Path:
    """Run a transform; gives what it wrote, or what it looked at.

    Raises:
        EgressRefused, TransformDegenerate: by their own names, which a child can only say.
    """
    try:
        run(call)
    except HookFailed as error:
        _refuse(error)
    return call.out_path or Path(str(call.required["model_path"]))


def _refuse(error: HookFailed) -> NoReturn:
    said = own_words(error).partition(": ")[2] or str(error)
    if error.kind == "EgressRefused":
        raise EgressRefused(said) from error
    if error.kind == "TransformDegenerate":
        raise TransformDegenerate(
            said, hook=error.hook, kind=error.kind, where=error.where, detail=error.detail
        ) from error
    raise error


def _opens(model: Path) -> bool:
    """Whether the add-on can look into such a file."""
    return model.suffix in (".npz", ".safetensors")
