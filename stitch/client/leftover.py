"""Passes that no buffered round will use any more: superseded, or too stale. The next global records them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from stitch import layout
from stitch.client.buffers import Buffers
from stitch.client.late import by_number, seal_of
from stitch.client.rebuild import Redone
from stitch.client.site import SiteVerbs
from stitch.errors import StoreError
from stitch.layout import PassRef, What
from stitch.mirror import Sealed
from stitch.rounds import Attempt
from stitch.wire import Input


class Leftovers:
    """Looks into every lane when a global is sealed; one list each.

    Args:
        client: the lead's.
        buffers: what the globals say so far.
    """

    def __init__(self, client: SiteVerbs, buffers: Buffers) -> None:
        self._client = client
        self._buffers = buffers
        self._read: dict[PassRef, Input] = {}

    def find(self, now: Attempt, sites: Iterable[str], *, used: Sequence[Sealed]) -> tuple[Input, ...]:
        """Passes that no round can use from now on and that no global has named, by site and number.

        Args:
            now: the round that is being sealed.
            sites: everybody on the roster.
            used: its inputs.
        """
        buffer, taken = self._buffers.of(now), {one.ref for one in used}
        oldest = now.pass_id - self._client.settings.policy.oldest
        over, asked = [], Redone(self._client)
        for site in sorted(sites):
            # Whoever writes in a lane can put any number of passes there: a record has room for those that
            # rounds so far have asked for.
            refs = [ref for ref in self._listed(site) if ref.number <= now.pass_id and asked.has(ref)]
            hope = buffer.newest(site, refs)  # the one that a later round may still use
            over += [ref for ref in refs if ref not in taken and (ref != hope or ref.number < oldest)]
        found = (self._told(ref) for ref in over if not self._buffers.used(ref))
        return tuple(one for one in found if one and not self._buffers.recorded(one.metrics_sha256))

    def _listed(self, site: str) -> list[PassRef]:
        try:
            keys = [layout.parse(entry.key) for entry in self._client.lanes.list(f"sites/{site}/pass_")]
        except StoreError:
            return []  # unknown now: the next round looks again
        refs = (key.ref for key in keys if key is not None and key.ref and key.what is What.SEAL)
        return sorted(refs, key=by_number)

    def _told(self, ref: PassRef) -> Input | None:
        if ref not in self._read:
            said = seal_of(self._client, ref)
            if said is None:
                return None
            self._read[ref] = said
        return self._read[ref]
