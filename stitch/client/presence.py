"""That a site takes part and lives: its join documents and its heartbeats."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from stitch import layout
from stitch.client.actor import Actor
from stitch.client.seat import Seat
from stitch.errors import LaneLost, ProtocolError
from stitch.layout import What
from stitch.version import __version__
from stitch.wire import Join
from stitch.wire.documents import Liveness


class Presence(Actor):
    """The verbs with which a site shows itself."""

    def join(self) -> None:
        """Publish what this site runs, if that is new."""
        fields = {
            "run_id": self.settings.run_id,
            "site": self.site,
            "config_sha256": self.config_sha256,
            "hooks_sha256": self.hooks_sha256,
            "contract": self.settings.hooks.contract,
            "stitch_version": __version__,
        }
        newest = 0
        for entry in self.lanes.list(f"{self.lane}/join/"):
            key = layout.parse(entry.key)
            newest = max(newest, key.number) if key is not None and key.what is What.JOIN else newest
        while newest and self.documents.exists(layout.join(self.site, newest)):
            with contextlib.suppress(ProtocolError):  # one that cannot be read says nothing of us
                stored = self.documents.read(layout.join(self.site, newest), Join)
                if stored and all(getattr(stored.doc, name) == value for name, value in fields.items()):
                    return
            newest += 1
        doc = Join.make(created_at=self.clock.now(), **fields)
        self.told(self.documents.create(layout.join(self.site, max(newest, 1)), doc))
        self.journal.note(self.lane, "join", text=f"joined run {self.settings.run_id} as {self.site}")

    def heartbeat(self, pass_id: int | None = None) -> None:
        """Beat once: shows that this site lives.

        Args:
            pass_id: the pass being trained; None says that nothing is.

        Raises:
            LaneLost: another process works for this site.
        """
        state: Liveness = "training" if pass_id else "idle"
        self._sit(state, pass_id).beat(state, pass_id)

    @contextlib.contextmanager
    def heartbeating(self, pass_id: int) -> Iterator[None]:
        """Beat every `heartbeat_minutes` in the background while the block trains pass `pass_id`.

        Raises:
            LaneLost: another process works for this site; the block is not entered.
        """
        seat = self._sit("training", pass_id)
        try:
            yield
        finally:
            seat.tell("waiting", pass_id)

    def _sit(self, state: Liveness, pass_id: int | None) -> Seat:
        """Hold this site's lane, with these words for the beats to come, the first one included."""
        seat = self.seat(self.lane)
        seat.tell(state, pass_id)
        holder = seat.take()
        if holder is not None:
            where = "on this machine" if holder.here else f"on {holder.host}"
            raise LaneLost(f"another process {where} works for {self.lane}")
        return seat
