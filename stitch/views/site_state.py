"""One site's state from its own files: the one rule for `status` and for the lead's `site_status`."""

from __future__ import annotations

from dataclasses import dataclass

from stitch import layout
from stitch.layout import PassRef, What
from stitch.views.reading import LaneFiles
from stitch.views.status import Beat, Failure, SiteState
from stitch.wire import EventDoc, Seal


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a site is with the pass now wanted.

    Attributes:
        seen: it wrote anything; a heartbeat alone is `doctor`'s probe.
        sealed: its newest ready pass.
        arriving: a wanted pass is sealed, but its whole model is not there yet.
        started, failed: the newest training attempt of each event of the wanted pass; 0 for none.
    """

    seen: bool
    sealed: int | None
    arriving: bool
    started: int
    failed: int
    failure: Failure | None


def progress(files: LaneFiles, *, owed: PassRef) -> Progress:
    """What the lane says about the pass that the round wants from it."""
    wanted = owed.number
    ready: list[int] = []
    arriving = False
    for found in files.of(What.SEAL):
        ref = found.key.ref
        superseded = ref is not None and ref.number == wanted and ref.attempt < owed.attempt
        if isinstance(found.document, Seal) and found.key.ref is not None and not superseded:
            if files.holds_model(found.document, found.key.ref.folder):
                ready.append(found.key.number)
            else:
                arriving = arriving or found.key.number == wanted
    attempts = {
        name: max((e.key.attempt for e in files.of(What.EVENT) if _is(e.key, name, wanted)), default=0)
        for name in (layout.Event.STARTED, layout.Event.FAILED)
    }
    return Progress(
        seen=any(one.key.what is not What.HEARTBEAT for one in files.found.values()),
        sealed=max(ready, default=None),
        arriving=arriving and wanted not in ready,
        started=attempts[layout.Event.STARTED],
        failed=attempts[layout.Event.FAILED],
        failure=_failure(files, wanted),
    )


def site_state(
    now: Progress, beat: Beat | None, *, wanted: int, finished: bool, problems: tuple[str, ...] = ()
) -> tuple[SiteState, str]:
    """A site's state and one line on it.

    Args:
        now: what its lane says.
        beat: its newest sign of life.
        wanted: the pass the lead now wants from it.
        finished: the run has its end marker.
        problems: what could not be read of its lane.
    """
    if problems or not now.seen:
        return (SiteState.UNREADABLE, problems[0]) if problems else (SiteState.NEVER_SEEN, "")
    if finished or (now.sealed is not None and now.sealed >= wanted):
        return SiteState.COMPLETED if now.sealed is not None else SiteState.JOINED, ""
    if now.failed and now.failed >= now.started:
        return SiteState.FAILED, _say(now.failure)
    return _before_its_seal(now, beat)


def _before_its_seal(now: Progress, beat: Beat | None) -> tuple[SiteState, str]:
    said = beat.state if beat else None
    if beat is not None and beat.late:
        return SiteState.STALLED, "stopped by its operator" if said == "released" else ""
    if now.arriving:
        return SiteState.TRAINING, "sealed; its model has not arrived whole"
    if said == "released":
        return SiteState.JOINED, "not running"
    return SiteState.TRAINING if now.started or said == "training" else SiteState.JOINED, ""


def _is(key: layout.Key, name: str, wanted: int) -> bool:
    return key.name == name and key.number == wanted


def _failure(files: LaneFiles, wanted: int) -> Failure | None:
    failed = [e for e in files.of(What.EVENT) if _is(e.key, layout.Event.FAILED, wanted)]
    if not failed or not isinstance(failed[-1].document, EventDoc):
        return None
    event = failed[-1].document
    return Failure(event.pass_id, event.attempt, event.hook, event.exception, event.where, event.message)


def _say(failure: Failure | None) -> str:
    if failure is None:
        return ""
    what = failure.exception or "failed"
    return f"{failure.hook or 'hook'}: {what}" + (f" at {failure.where}" if failure.where else "")
