"""Passes that are sealed here and not in the store, of rounds that are over (law 3)."""

from __future__ import annotations

from collections.abc import Collection

from stitch.client import Client
from stitch.layout import PassRef
from stitch.mirror import Sealed


class Unsent:
    """What a process that died, or a person who reviews, left behind.

    Sent if the policy can still use it, else set aside. Of several only the newest: it supersedes the others.

    Args:
        client: the site's.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._known: PassRef | None = None

    def usable(self, wanted: int) -> Sealed | None:
        """A pass from an older global that a buffered round can still use, and that nobody has to see first.

        Args:
            wanted: the pass that the site owes now; older ones are looked at.
        """
        client = self._client
        newest = self._newest(wanted)
        if newest is None or newest == self._known:
            return None
        sealed = client.mirror.sealed(newest)
        if sealed is None or client.outbox.holds(sealed):
            return None
        if client.passes.stat_seal(newest) is not None:
            self._known = newest
            return None
        return sealed

    def set_aside(self, wanted: int, there: Collection[PassRef]) -> None:
        """Put away what no round can use; it is kept in the mirror.

        Args:
            wanted: the pass that the site owes now; older ones are looked at.
            there: what a list of the store shows.
        """
        client, kept = self._client, self._newest(wanted)
        for ref in client.mirror.passes(client.lane):
            over = ref.number < wanted and ref != kept and ref not in there
            if over and client.passes.stat_seal(ref) is None:
                aside = client.mirror.set_aside(ref)
                text = f"pass {ref.number} was never published and its round is over; kept in {aside}"
                client.journal.note(client.lane, "set_aside", text=text, pass_id=ref.number)

    def _newest(self, wanted: int) -> PassRef | None:
        """The newest pass sealed here of a round that is over, if it is not too stale."""
        oldest = wanted - self._client.settings.policy.oldest
        if oldest == wanted:
            return None
        refs = [ref for ref in self._client.mirror.passes(self._client.lane) if ref.number < wanted]
        return refs[-1] if refs and refs[-1].number >= oldest else None
