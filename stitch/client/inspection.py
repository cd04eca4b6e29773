"""What opens a model before a round uses it, in a process that may crash in its stead: the admit hook.

Of a compressed model it is looked whether it can be expanded: after the verdict that would be too late.

It runs at the site before the seal, where somebody can mend the model, and at the lead before the verdict.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from stitch.client.actor import Actor
from stitch.client.calls import admit_call
from stitch.client.ended import run_hook
from stitch.client.filter_calls import expand_call
from stitch.client.trail import own_words
from stitch.errors import HookFailed, HookOutput
from stitch.files import disk
from stitch.hooks.call import HookCall
from stitch.layout import PassRef
from stitch.rounds import Code, Reason
from stitch.wire import Seal

_MOST = 240
"""Characters of a reason: it quotes names that a site chose."""

_CRASHES = ("SIGSEGV", "SIGBUS", "SIGABRT", "SIGILL", "SIGFPE", "access violation", "heap", "stack")
"""What a reader comes to that a damaged file brings down; running out of memory is not among them."""

_UNFIT = "BadModel"
"""The error by which `stitch.learning` says that a file does not fit."""


def unfit_model(actor: Actor, seal: Seal, *, ref: PassRef, model: Path, base: Path) -> Reason | None:
    """Why the admit hook leaves a model out; None when it does not, or there is no such hook.

    Beside `[compression]` there is none: a model that cannot be expanded is left out.

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
    spec, packed = actor.settings.hooks.admit, actor.settings.compression.kind is not None
    if (spec is None and not packed) or seal.n_samples == 0:  # what weighs nothing is left out unseen
        return None
    stage = actor.mirror.stage(ref)
    try:
        verdict = stage.work_dir / "reason.txt"
        if spec is None:
            call = expand_call(actor.settings, stage, model=model, base=base)
        else:
            call = admit_call(
                actor.settings, spec, seal=seal, ref=ref, model=model, base=base, reason=verdict
            )
        try:
            return look_into(call, run=partial(run_hook, actor), verdict=verdict)
        except HookFailed as error:
            if spec is None and error.kind == _UNFIT:
                said = own_words(error).partition(": ")[2]
                return Reason(Code.MODEL, _line(f"its model cannot be expanded: {said}"))
            raise
    finally:
        actor.mirror.discard(stage)


def look_into(call: HookCall, *, run: Callable[[HookCall], object], verdict: Path) -> Reason | None:
    """Run the admit hook; why it leaves the model out, or None.

    Args:
        call: `admit_call`.
        run: runs a hook.
        verdict: where the hook writes its line.

    Raises:
        HookError: as `unfit_model`.
    """
    try:
        run(call)
    except HookFailed as error:
        if any(crash in error.kind for crash in _CRASHES):
            return Reason(Code.MODEL, f"reading its model ended in {error.kind}")
        raise
    return _read(verdict)


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
