"""A wiped mirror is rebuilt from the actor's own lane (law 4)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from stitch import layout
from stitch.client.site import SiteVerbs
from stitch.errors import ProtocolError
from stitch.layout import PassRef, What
from stitch.mirror import Sealed
from stitch.wire import Seal, Verdict, sha256


def rebuild(client: SiteVerbs, lane: str, *, below: int) -> None:
    """Fetch the passes of an own lane that this mirror lacks; their private state is gone for good.

    Args:
        client: who owns the lane.
        lane: its own lane, at the lead also the global one.
        below: passes from this number on are the loop's business.
    """
    here, asked = set(client.mirror.passes(lane)), Redone(client)
    for entry in client.lanes.list(f"{lane}/pass_"):
        key = layout.parse(entry.key)
        ref = key.ref if key is not None and key.what is What.SEAL else None
        if ref is not None and ref.number < below and ref not in here and asked.has(ref):
            _fetch(client, ref)


def drop_losers(client: SiteVerbs, newest: Sealed) -> None:
    """Replace globals here that are not on the chain: candidates that lost while this machine was away.

    Law 2: the store's seal holds. Later rounds read in older globals what was used and recorded.

    Args:
        client: the lead's.
        newest: the newest global, as the store has it.
    """
    record = newest.seal.round
    for number in range(newest.ref.number - 1, -1, -1):
        ref, wanted = PassRef(number), record.prev_metrics_sha256 if record is not None else None
        data = client.mirror.read(ref.seal)
        if data is None or sha256(data) != wanted:
            _fetch(client, ref)
            data = client.mirror.read(ref.seal)
        if data is None or sha256(data) != wanted:
            return  # it cannot be brought back: what lies before it is not told by this chain
        record = Seal.parse(data, source=ref.seal).round


class Redone:
    """Which redone passes of an own lane the lead's verdicts asked for; whoever writes there can make others.

    Args:
        client: who owns the lane.
    """

    def __init__(self, client: SiteVerbs) -> None:
        self._client = client
        self._known: dict[tuple[int, str | None], set[int]] = {}

    def has(self, ref: PassRef) -> bool:
        """Whether the pass is a first one, or one that was asked for again."""
        if not ref.attempt:
            return True
        where = (ref.number, ref.site)
        if where not in self._known:
            self._known[where] = set(self._asked(ref))
        return ref.attempt in self._known[where]

    def _asked(self, ref: PassRef) -> Iterator[int]:
        attempt = 0
        while (verdict := self._verdict(ref.number, attempt)) is not None:
            attempt += 1
            if ref.site in verdict.redo:
                yield attempt

    def _verdict(self, number: int, attempt: int) -> Verdict | None:
        """A verdict; one that cannot be believed asked for nothing, and no round over needs it."""
        with contextlib.suppress(ProtocolError):
            stored = self._client.documents.read(layout.verdict(number, attempt), Verdict)
            return stored.doc if stored else None
        return None


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
    reported, there, asked = client.events.completed(), published(client), Redone(client)
    for ref in sorted(ref for ref in there if ref.number <= upto):
        said = sum(number == ref.number for number, _ in reported)
        if said >= sum(other.number == ref.number for other in there):
            continue  # one report each, redone passes included
        if not asked.has(ref):
            continue
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
