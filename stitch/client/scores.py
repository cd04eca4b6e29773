"""What a site measured of a global, told within the rules of least egress (law 8)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stitch import layout
from stitch.client.calls import evaluate_call
from stitch.client.site import SiteVerbs
from stitch.errors import ConfigError, DiskError, EgressRefused, ProtocolError, StoreError
from stitch.hooks.inline import check_map
from stitch.layout import GLOBAL, Event, PassRef
from stitch.mirror import Sealed
from stitch.rounds import weighted_means
from stitch.sync.documents import Stored
from stitch.sync.egress import check_counts, narrow
from stitch.sync.status import Status
from stitch.wire import Evaluated, EventDoc, Score


class ScoreVerbs(SiteVerbs):
    """`push_evaluation`, and what stands around it."""

    def push_evaluation(self, pass_id: int, metrics: Mapping[str, Any]) -> Status:
        """Tell this site's score of global `pass_id`; for notebooks, `run` calls the evaluate hook instead.

        Args:
            pass_id: a global that `pull_global` has brought.
            metrics: must hold `n_samples`, the rows it was evaluated on; of the rest `[egress] metrics`.

        Returns:
            UPLOADED; ALREADY_SYNCED where a score of that global was told before; FAILED when the store
            stayed away through all retries.

        Raises:
            HookOutput: the metrics cannot be used.
            EgressRefused: too few samples, or this site reviews what leaves.
            ConfigError: the global is not here.
        """
        return self.attempt(lambda: self._push_evaluation(pass_id, metrics), what=f"score of {pass_id}")

    def _push_evaluation(self, pass_id: int, metrics: Mapping[str, Any]) -> Status:
        sealed = self.mirror.sealed(PassRef(pass_id))
        if sealed is None:
            raise ConfigError(f"global {pass_id} is not here", hint="Pull it first: pull_global.")
        if self.settings.egress.reviewed:
            raise EgressRefused(
                "this site reviews what leaves, and a score cannot be reviewed",
                hint='Scores leave only with outbox = "direct" (docs/security.md).',
            )
        if self.events.has(pass_id, Event.EVALUATED, attempt=1):
            return Status.ALREADY_SYNCED
        stage = self.stage(PassRef(pass_id, self.site, 1))
        call = evaluate_call(self.settings, stage, spec="", model=sealed.model, pass_id=pass_id)
        self.drop_stage(stage.ref)
        checked = check_map(call, metrics)
        self.emit_evaluation(sealed, n_samples=checked.n_samples, metrics=checked.metrics)
        return Status.UPLOADED

    def emit_evaluation(self, sealed: Sealed, *, n_samples: int, metrics: Mapping[str, float]) -> None:
        """Create the `evaluated` event of a global; one that is there is kept.

        Raises:
            EgressRefused: 0 < n_samples < min_n; nothing was sent.
        """
        check_counts(n_samples, self.settings.egress)
        self.emit(
            sealed.ref.number,
            Event.EVALUATED,
            attempt=1,
            model_sha256=sealed.seal.model_sha256,
            n_samples=n_samples,
            metrics=narrow(metrics, self.settings.egress.metrics),
        )

    def emit_central(self, sealed: Sealed, *, n_samples: int, metrics: Mapping[str, float]) -> None:
        """Create the lead's own score of a global; one that is there is kept.

        Raises:
            EgressRefused: 0 < n_samples < min_n; nothing was sent.
        """
        check_counts(n_samples, self.settings.egress)
        doc = EventDoc.make(
            run_id=self.settings.run_id,
            site=self.site,
            pass_id=sealed.ref.number,
            event=Event.EVALUATED.value,
            attempt=1,
            created_at=self.clock.now(),
            model_sha256=sealed.seal.model_sha256,
            n_samples=n_samples,
            metrics=narrow(metrics, self.settings.egress.metrics),
        )
        self.told(self.documents.create(layout.central(sealed.ref.number), doc))

    def evaluated(self, base: Sealed) -> Evaluated | None:
        """What the sites' evaluations of a global come to now; None where the settings ask for none.

        A score that is not there, cannot be read or is not of this very model does not count: no round
        waits for one, and a lane that cannot be read now holds up nobody.
        """
        told = self._told(base)
        if told is None:
            return None
        scores = tuple(
            Score(site=site, n_samples=event.doc.n_samples or 0, event_sha256=event.sha256)
            for site, event in told.items()
        )
        means = weighted_means([(one.doc.n_samples or 0, one.doc.metrics or {}) for one in told.values()])
        return Evaluated.model_validate({"pass": base.ref.number, "sites": scores, "means": means})

    def evaluation_results(self, base: Sealed) -> list[dict[str, object]]:
        """The sites' evaluations of a global as far as they are there now, for a strategy to aggregate."""
        told = self._told(base) if self.settings.hooks.strategy is not None else None
        return [
            {"site": site, "n_samples": event.doc.n_samples, "metrics": dict(event.doc.metrics or {})}
            for site, event in (told or {}).items()
        ]

    def _told(self, base: Sealed) -> dict[str, Stored[EventDoc]] | None:
        """The evaluations that count, by site; None where the settings ask for none."""
        hooks, roster = self.settings.hooks, self.newest_roster()
        if hooks.evaluate is None or self.settings.evaluation.when != "always" or roster is None:
            return None
        found = {site: self._score_of(site, base) for site in sorted(one.site for one in roster.sites)}
        return {site: event for site, event in found.items() if event is not None}

    def _score_of(self, site: str, base: Sealed) -> Stored[EventDoc] | None:
        """A site's evaluation of a global, as it is believed."""
        path = layout.event(site, base.ref.number, name=Event.EVALUATED)
        try:
            event = self.documents.read(path, EventDoc)
        except DiskError:
            raise
        except (ProtocolError, StoreError) as error:
            text = f"the score of {site} does not count: {error}"
            self.journal.note(GLOBAL, "warn", text=text, pass_id=base.ref.number)
            return None
        if event is None or event.doc.model_sha256 != base.seal.model_sha256 or not event.doc.n_samples:
            return None
        return event
