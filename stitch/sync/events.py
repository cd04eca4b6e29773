"""A site's events: immutable started, completed, failed and evaluated files (docs/protocol.md, Documents)."""

from __future__ import annotations

from typing import Any

from stitch import layout
from stitch.clock import Clock
from stitch.layout import Event
from stitch.sync.documents import Documents, Stored
from stitch.wire import EventDoc


class Events:
    """The events of one site's lane.

    The number of a repeated event is the training attempt, shared by started, completed and
    failed; the newest counts.
    """

    def __init__(self, site: str, documents: Documents, *, run_id: str, clock: Clock) -> None:
        self._site = site
        self._run_id = run_id
        self._documents = documents
        self._clock = clock

    def emit(self, pass_id: int, event: Event, *, attempt: int, **fields: Any) -> Stored[EventDoc]:
        """Create an event; one that is there already is success (law 1).

        Args:
            pass_id: the site pass.
            event: which.
            attempt: the training attempt, from 1.
            **fields: further fields of `EventDoc`.
        """
        doc = EventDoc.make(
            run_id=self._run_id,
            site=self._site,
            pass_id=pass_id,
            event=event.value,
            attempt=attempt,
            created_at=self._clock.now(),
            **fields,
        )
        return self._documents.create(layout.event(self._site, pass_id, name=event, attempt=attempt), doc)

    def last_attempt(self, pass_id: int) -> int:
        """The newest training attempt of a pass that has an event; 0 when there is none."""
        prefix = f"{layout.site_lane(self._site)}/events/{layout.pass_name(pass_id)}."
        last = 0
        for entry in self._documents.lanes.list(prefix):
            key = layout.parse(entry.key)
            if key is not None and key.what is layout.What.EVENT and key.name != Event.EVALUATED:
                last = max(last, key.attempt)
        while self._documents.exists(layout.event(self._site, pass_id, name=Event.STARTED, attempt=last + 1)):
            last += 1  # lists may be stale
        return last

    def completed(self) -> set[tuple[int, int]]:
        """(pass, training attempt) of the completed events, as far as a list shows."""
        prefix = f"{layout.site_lane(self._site)}/events/"
        keys = (layout.parse(entry.key) for entry in self._documents.lanes.list(prefix))
        return {(key.number, key.attempt) for key in keys if key is not None and key.name == Event.COMPLETED}

    def has(self, pass_id: int, event: Event, *, attempt: int) -> bool:
        """Whether the event is in the store."""
        return self._documents.exists(layout.event(self._site, pass_id, name=event, attempt=attempt))
