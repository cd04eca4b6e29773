"""That a site takes part and lives: its join documents, its events and its heartbeats."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from stitch import layout
from stitch.client.begun import Begun
from stitch.client.commitment import root_of_data
from stitch.client.seat import Seat
from stitch.errors import ConfigError, LaneLost, ProtocolError, StoreDenied
from stitch.layout import GLOBAL, Event, What
from stitch.version import __version__
from stitch.wire import Join, Seal
from stitch.wire.documents import Liveness


class Presence(Begun):
    """The verbs with which a site shows itself."""

    def join(self, *, wanted: int = 1) -> None:
        """Publish what this site runs, if that is new.

        Args:
            wanted: the pass this site works on next; it says which pins must hold already.

        Raises:
            PinMismatch: a pinned file is another one here; nothing was published.
        """
        self.pins(wanted)
        signing = self.documents.signing
        fields = {
            "run_id": self.settings.run_id,
            "site": self.site,
            "config_sha256": self.config_sha256,
            "hooks_sha256": self.hooks_sha256,
            "contract": self.settings.hooks.contract,
            "pins": {name: pin.sha256 for name, pin in sorted(self.settings.pins.items())},
            "public_key": signing.signer.public_key if signing and signing.signer else None,
            "stitch_version": __version__,
        }
        number, newest = self._newest_join(self.site)
        if newest is not None and all(getattr(newest, name) == value for name, value in fields.items()):
            return
        doc = Join.make(created_at=self.clock.now(), **fields)
        self.told(self.documents.create(layout.join(self.site, number + 1), doc))
        self.journal.note(self.lane, "join", text=f"joined run {self.settings.run_id} as {self.site}")

    def ready_to_train(self, pass_id: int) -> dict[str, Any]:
        """Look whether this site may train a pass; gives what its `started` event declares.

        Raises:
            PinMismatch: a pinned file is another one here.
            ConfigError: `same_train = "refuse"` and the hooks are not the lead's, or there is no data.
            HookError, DiskError: the data cannot be committed to.
        """
        self.pins(pass_id)
        self._require_same_hooks()
        return {"dataset_root": root_of_data(self, pass_id)} if self.settings.integrity.commit else {}

    def _require_same_hooks(self) -> None:
        if self.settings.integrity.same_train != "refuse" or self.settings.is_lead:
            return
        lead, ours = self.settings.lead, self.hooks_sha256
        theirs = self._hooks_of_lead()
        if ours is not None and theirs is not None and ours != theirs:
            raise ConfigError(
                f"the hooks of {self.site} ({ours[:12]}...) are not those of {lead} ({theirs[:12]}...)",
                hint=f'Take over the code of {lead}; or set same_train = "warn" under [integrity].',
            )

    def _hooks_of_lead(self) -> str | None:
        """Of its newest join; where this site cannot read that lane, of the newest global it has."""
        join: Join | None = None
        if self.lanes.has(layout.site_lane(self.settings.lead)):
            with contextlib.suppress(StoreDenied):
                _, join = self._newest_join(self.settings.lead)
        if join is not None:
            return join.hooks_sha256
        newest = self.mirror.passes(GLOBAL)[-1:]
        sealed = self.mirror.sealed(newest[0]) if newest else None
        return sealed.seal.hooks_sha256 if sealed else None

    def _newest_join(self, site: str) -> tuple[int, Join | None]:
        """A site's newest join document and its number; 0 and None before the first."""
        number = 0
        for entry in self.lanes.list(f"{layout.site_lane(site)}/join/"):
            key = layout.parse(entry.key)
            number = max(number, key.number) if key is not None and key.what is What.JOIN else number
        join = self._read_join(site, number) if number else None
        while self.documents.exists(layout.join(site, number + 1)):  # lists may be stale
            number += 1
            join = self._read_join(site, number)
        return number, join

    def _read_join(self, site: str, number: int) -> Join | None:
        """A join document; one that cannot be read says nothing of its site."""
        try:
            stored = self.documents.read(layout.join(site, number), Join)
        except ProtocolError:
            return None
        return stored.doc if stored else None

    def report(self, seal: Seal) -> None:
        """Emit the pass's `completed` event; a seal implies it, so a missing one is repaired."""
        self.emit(
            seal.pass_id,
            Event.COMPLETED,
            attempt=seal.attempt,
            model_sha256=seal.model_sha256,
            n_samples=seal.n_samples,
            metrics=dict(seal.metrics),
        )

    def emit(self, pass_id: int, event: str, *, attempt: int | None = None, **fields: Any) -> bool:
        """Create an event of this site's pass: started, completed, failed or evaluated.

        Before `started` the pins are checked, and the lead's hooks where `[integrity]` says so; with
        `commit` it carries the root over the data.

        Args:
            pass_id: the site pass.
            event: which; repeating one changes nothing.
            attempt: the training attempt; by default the newest.
            **fields: further fields of the event document.

        Returns:
            Whether the event that is there now says this; one that says something else was kept.

        Raises:
            PinMismatch, ConfigError: this site may not train; nothing was created.
        """
        if event == Event.STARTED:
            fields = self.ready_to_train(pass_id) | fields
        number = attempt or max(1, self.events.last_attempt(pass_id))
        return not self.told(self.events.emit(pass_id, Event(event), attempt=number, **fields)).conflict

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
