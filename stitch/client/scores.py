"""What a site measured of a global, told within the rules of least egress (law 8)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stitch.client.calls import evaluate_call
from stitch.client.site import SiteVerbs
from stitch.errors import ConfigError, EgressRefused
from stitch.hooks.inline import check_map
from stitch.layout import Event, PassRef
from stitch.mirror import Sealed
from stitch.sync.egress import check_counts, narrow
from stitch.sync.status import Status


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
