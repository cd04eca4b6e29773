"""What opens a model before a round uses it, in a process that may crash in its stead: the admit hook.

A compressed model is expanded first: after the verdict it would be too late to find that it cannot be.

It runs at the site before the seal, where somebody can mend the model, and at the lead before the verdict.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from stitch.client.actor import Actor
from stitch.client.calls import admit_call
from stitch.client.ended import run_hook
from stitch.client.filter_calls import expand_call
from stitch.client.releasing import Run
from stitch.client.trail import own_words
from stitch.config.settings import Settings
from stitch.errors import HookFailed, HookOutput
from stitch.files import disk
from stitch.hooks.call import HookCall
from stitch.layout import PassRef
from stitch.mirror import Stage
from stitch.rounds import Code, Reason
from stitch.wire import Seal

_MOST = 240
"""Characters of a reason: it quotes names that a site chose."""

_CRASHES = ("SIGSEGV", "SIGBUS", "SIGABRT", "SIGILL", "SIGFPE", "access violation", "heap", "stack")
"""What a reader comes to that a damaged file brings down; running out of memory is not among them."""

_UNFIT = "BadModel"
"""The error by which `stitch.learning` says that a file does not fit."""


def unfit_model(actor: Actor, seal: Seal, *, ref: PassRef, model: Path, base: Path) -> Reason | None:
    """Why a model is left out for what it holds; None when it is not, or nobody looks.

    Args:
        actor: who asks.
        seal: the pass's.
        ref: where the pass lies.
        model: its model file.
        base: the global that it was trained from.

    Raises:
        HookError: the hook itself is at fault: it raised, or ran out of time or memory.
        RunEnded, Stopped: as `run_hook`.
        DiskError: there is no room for its scratch files.
    """
    if not looks_into(actor.settings):
        return None
    stage = actor.mirror.stage(ref)
    try:
        return look_into(
            actor.settings, stage, seal=seal, model=model, base=base, run=partial(run_hook, actor)
        )
    finally:
        actor.mirror.discard(stage)


def looks_into(settings: Settings) -> bool:
    """Whether models are opened before a round uses them."""
    return settings.hooks.admit is not None or settings.compression.kind is not None


def look_into(
    settings: Settings, stage: Stage, *, seal: Seal, model: Path, base: Path, run: Run
) -> Reason | None:
    """Expand a compressed model, and ask the admit hook about the model; why it is left out, or None.

    Args:
        settings: of who asks.
        stage: of the pass; its scratch folder is used.
        seal: the pass's.
        model: its model file, as it was or is to be sealed.
        base: the global that it was trained from.
        run: runs a hook.

    Raises:
        HookError: as `unfit_model`.
    """
    if seal.n_samples == 0:  # what weighs nothing is left out unseen
        return None
    if settings.compression.kind is not None:
        call = expand_call(settings, stage, model=model, base=base)
        reason = _against(call, run=run)
        if reason is not None:
            return reason
        model = call.out_path or model
    spec = settings.hooks.admit
    if spec is None:
        return None
    verdict = stage.work_dir / "reason.txt"
    call = admit_call(settings, spec, seal=seal, ref=stage.ref, model=model, base=base, reason=verdict)
    return _against(call, run=run) or _read(verdict)


def require_admitted(actor: Actor, seal: Seal, *, ref: PassRef, model: Path, base: Path) -> None:
    """Refuse to seal a site pass that the admit hook leaves out.

    Raises:
        HookOutput: it does.
        HookError, RunEnded, Stopped, DiskError: as `unfit_model`.
    """
    reason = unfit_model(actor, seal, ref=ref, model=model, base=base)
    if reason is not None:
        raise not_admitted(ref, reason)


def not_admitted(ref: PassRef, reason: Reason) -> HookOutput:
    """What a site whose own pass would be left out is told."""
    return HookOutput(
        f"pass {ref.number} would not be admitted: {reason}",
        hint="Nothing was sealed and nothing left this machine. Correct the train hook, then run again.",
        hook="train",
        kind="HookOutput",
    )


def _against(call: HookCall, *, run: Run) -> Reason | None:
    """Run what opens the model; a reason where it ends in a way that is the model's fault."""
    try:
        run(call)
    except HookFailed as error:
        if any(crash in error.kind for crash in _CRASHES):
            return Reason(Code.MODEL, f"reading its model ended in {error.kind}")
        if call.hook == "expand" and error.kind == _UNFIT:
            said = own_words(error).partition(": ")[2]
            return Reason(Code.MODEL, _line(f"its model cannot be expanded: {said}"))
        raise
    return None


def _read(verdict: Path) -> Reason | None:
    """The first line that the hook wrote, fit for a document."""
    with disk(verdict):
        if not verdict.exists():
            return None
        with verdict.open("rb") as written:
            text = written.read(4 * _MOST).decode("utf-8", "replace").strip()
    line = _line(text)
    return Reason(Code.MODEL, line) if line else None


def _line(text: str) -> str:
    return ascii(text.partition("\n")[0].strip())[1:-1].replace("\\'", "'")[:_MOST]
