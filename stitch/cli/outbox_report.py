"""What waits to leave, for the person who must look at it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from stitch import layout
from stitch.cli.project import settings_here, shown
from stitch.client.outbox import Leaving, Outbox, leaving
from stitch.clock import SystemClock
from stitch.config import Settings
from stitch.layout import Event
from stitch.mirror import Mirror, Sealed
from stitch.store import parse_location
from stitch.views.words import number, plain, size

KIND = "stitch.outbox/1"


def outbox_here() -> tuple[Outbox, Settings]:
    """The outbox of the project in the current folder; no store is asked."""
    settings = settings_here(stores=False)
    return Outbox(settings, Mirror(settings.mirror_dir), clock=SystemClock()), settings


def listing(box: Outbox, settings: Settings, *, passes: Sequence[Sealed]) -> str:
    """Each byte that would leave, as ASCII lines."""
    lines = [line for sealed in passes for line in (*_one(box, settings, sealed), "")]
    if not passes:
        mode = "review" if settings.egress.reviewed else "direct: passes are sent without a review"
        lines = [f"nothing waits for review (outbox = {mode})", ""]
    lines.append("without any approval leave: join, lease and heartbeat documents, and started and")
    lines.append("failed events (pass number, time, type and place of an error; no numbers, no text)")
    return "\n".join(plain(line, most=400) for line in lines)


def as_json(box: Outbox, settings: Settings, *, passes: Sequence[Sealed]) -> str:
    """The same for programs: `stitch.outbox/1`."""
    told = {
        "kind": KIND,
        "run_id": settings.run_id,
        "site": settings.site,
        "outbox": settings.egress.outbox,
        "store": _store(settings),
        "passes": [
            {
                "pass": sealed.ref.number,
                "attempt": sealed.seal.attempt,
                "state": box.state(sealed),
                "seal_sha256": sealed.sha256,
                "n_samples": sealed.seal.n_samples,
                "metrics": dict(sealed.seal.metrics),
                "files": [_file(settings, one) for one in leaving(sealed, settings)],
            }
            for sealed in passes
        ],
    }
    return json.dumps(told, indent=2, ensure_ascii=True, allow_nan=False)


def decided(box: Outbox, settings: Settings, *, sealed: Sealed) -> str:
    """What became of a pass that somebody approved."""
    if box.state(sealed) == "sent":
        return f"pass {sealed.ref.number} was sent already"
    which = f"pass {sealed.ref.number} is approved (seal {sealed.sha256[:12]})"
    return f"{which}: `run` or `step` sends it to {_store(settings)}"


def report(aside: Path, pass_id: int) -> str:
    """What became of a pass that somebody refused."""
    return f"pass {pass_id} was not sent; it lies in {shown(aside)}, and `run` or `step` trains it again"


def _one(box: Outbox, settings: Settings, sealed: Sealed) -> Iterator[str]:
    seal, site = sealed.seal, settings.site
    state = {"held": "waits for review", "approved": "is approved", "sent": "was sent"}[box.state(sealed)]
    yield f"pass {seal.pass_id} of {site}, training {seal.attempt}, {state}; this and nothing else leaves"
    yield f"to {_store(settings)}:"
    for one in leaving(sealed, settings):
        yield f"  {settings.run_id}/{one.path}"
        yield f"    {one.size} bytes ({size(one.size)})"
        yield f"    SHA-256 {one.sha256}"
    event = layout.event(site, seal.pass_id, name=Event.COMPLETED, attempt=max(1, seal.attempt))
    yield f"  {settings.run_id}/{event}"
    yield "    the same numbers again"
    yield f"n_samples {seal.n_samples}, trained from global {seal.base_pass}"
    for name, value in sorted(seal.metrics.items()):
        yield f"  {name} {number(value)}"
    folder = sealed.model.parent
    yield f"to look at them: {shown(folder / sealed.model.name)} and metrics.json beside it"
    if box.state(sealed) == "held":
        yield f"then: clif-stitch outbox approve {seal.pass_id}, or clif-stitch outbox refuse {seal.pass_id}"


def _file(settings: Settings, one: Leaving) -> dict[str, object]:
    return {"key": f"{settings.run_id}/{one.path}", "bytes": one.size, "sha256": one.sha256}


def _store(settings: Settings) -> str:
    """The store's address, without its token."""
    return str(parse_location(settings.urls.site)) if settings.urls.site else "(no store is set yet)"
