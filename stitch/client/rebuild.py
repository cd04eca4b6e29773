"""A wiped mirror is rebuilt from the actor's own lane (law 4)."""

from __future__ import annotations

from stitch import layout
from stitch.client.site import SiteVerbs
from stitch.errors import ProtocolError
from stitch.layout import PassRef, What


def rebuild(client: SiteVerbs, lane: str, *, below: int) -> None:
    """Fetch the passes of an own lane that this mirror lacks; their private state is gone for good.

    Args:
        client: who owns the lane.
        lane: its own lane, at the lead also the global one.
        below: passes from this number on are the loop's business.
    """
    here = set(client.mirror.passes(lane))
    for entry in client.lanes.list(f"{lane}/pass_"):
        key = layout.parse(entry.key)
        ref = key.ref if key is not None and key.what is What.SEAL else None
        if ref is not None and ref.number < below and ref not in here:
            _fetch(client, ref)


def published(client: SiteVerbs) -> set[PassRef]:
    """The site's sealed passes in the store, as far as a list shows."""
    keys = (layout.parse(entry.key) for entry in client.lanes.list(f"{client.lane}/pass_"))
    return {key.ref for key in keys if key is not None and key.ref and key.what is What.SEAL}


def report_published(client: SiteVerbs, *, upto: int) -> None:
    """Report what is published and was not reported by whoever died then: seals imply `completed`.

    A seal that nobody can believe needs no report and stops nobody.

    Args:
        client: whose passes.
        upto: passes beyond this number are no work of ours.
    """
    reported, there = client.events.completed(), published(client)
    for ref in sorted(ref for ref in there if ref.number <= upto):
        said = sum(number == ref.number for number, _ in reported)
        if said >= sum(other.number == ref.number for other in there):
            continue  # one report each, redone passes included
        try:
            stored = client.passes.read_seal(ref)
        except ProtocolError as error:
            text = f"pass {ref.number} is not reported: {error}"
            client.journal.note(client.lane, "warn", text=text, pass_id=ref.number)
            continue
        if stored is not None:
            client.report(stored.doc)
            client.journal.note(client.lane, "repair", text=f"reported pass {ref.number}", pass_id=ref.number)


def _fetch(client: SiteVerbs, ref: PassRef) -> None:
    """Bring one pass back; one that does not match its seal stops nobody, since no round needs it (law 2)."""
    progress = client.progress(ref.lane, "pull", pass_id=ref.number)
    try:
        _, sealed, _ = client.passes.adopt(ref, progress=progress)
    except ProtocolError as error:
        text = f"pass {ref.number} is not brought back into the mirror: {error} ({error.hint})"
        client.journal.note(ref.lane, "warn", text=text, pass_id=ref.number)
        return
    if sealed is not None:
        client.outbox.mark_sent(sealed)
        text = f"brought pass {ref.number} back into the mirror"
        client.journal.note(ref.lane, "repair", text=text, pass_id=ref.number)
