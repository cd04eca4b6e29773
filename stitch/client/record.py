"""The lead's documents: roster, verdicts, orchestration, the end marker, and a global's round record."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

from stitch import layout
from stitch.client.judging import JudgingVerbs
from stitch.client.lead_view import LeadView
from stitch.config.policy import Policy
from stitch.errors import ConfigError, DigestMismatch, ProtocolError
from stitch.layout import GLOBAL, PassRef
from stitch.mirror import Sealed
from stitch.rounds import Attempt, RoundState, weighted_means
from stitch.sync.documents import Stored
from stitch.wire import (
    MAX_BYTES,
    Abort,
    Directive,
    Done,
    Input,
    Orchestration,
    Roster,
    RosterSite,
    RoundRecord,
    Scalar,
    Verdict,
)


class RecordVerbs(JudgingVerbs):
    """What the lead writes down; every document is created once, orchestration alone is replaced."""

    _orchestration: Stored[Orchestration] | None = None  # as we last saw it in the store

    def require_lead(self) -> None:
        """Refuse a verb that writes the global lane to anybody else (law 1: one writer a lane).

        Raises:
            ConfigError: this actor is not the lead.
        """
        if not self.settings.is_lead:
            raise ConfigError(
                f"only the lead ({self.settings.lead}) writes the global lane; this is {self.site}",
                hint="Use this verb at the lead.",
            )

    def roster(self) -> Roster:
        """The newest roster; the first one is made from `stitch.toml` (lead only)."""
        newest = self.newest_roster()
        if newest is None:
            first = Roster.make(
                run_id=self.settings.run_id,
                number=1,
                sites=tuple(RosterSite(site=site, key=self._first_key(site)) for site in self.settings.sites),
                created_at=self.clock.now(),
            )
            newest = self._roster = self.documents.create(layout.roster(1), first).doc
        return newest

    def _first_key(self, site: str) -> str | None:
        """The lead's own key is known from the start; the other sites' come by `sites add --key`."""
        return self.settings.security.lead_key if site == self.site and self.documents.signing else None

    def require_global(self, pass_id: int) -> Sealed:
        """Global `pass_id` from the store, verified.

        Raises:
            ProtocolError: it is not there whole.
        """
        _, sealed = self.fetch_global(pass_id)
        if sealed is None:
            raise DigestMismatch(
                f"global {pass_id} is sealed, but its model is not whole in the store",
                hint="A synced folder may still be copying: the same command goes on by itself.",
            )
        return sealed

    def first_record(self) -> RoundRecord:
        """The record of pass 0: no inputs, chained to the manifest."""
        return RoundRecord(
            policy=self.settings.policy.require,
            attempt=0,
            roster=self.roster().number,
            verdict_sha256=None,
            inputs=(),
            prev_metrics_sha256=self.manifest_sha256,
            seed=self.seed(0),
        )

    def record_of(
        self,
        verdict: Stored[Verdict],
        base: Sealed,
        *,
        inputs: Sequence[Sealed],
        should_stop: bool,
        late: Sequence[Input] = (),
        config: Mapping[str, Scalar] | None = None,
    ) -> RoundRecord:
        """The record of a round that closed, chained to the previous global's seal."""
        record = RoundRecord(
            policy=self.settings.policy.require,
            attempt=verdict.doc.attempt,
            roster=verdict.doc.roster,
            verdict_sha256=verdict.sha256,
            inputs=verdict.doc.inputs,
            excluded=verdict.doc.excluded,
            late=tuple(late),
            prev_metrics_sha256=base.sha256,
            seed=self.seed(verdict.doc.pass_id),
            should_stop=should_stop,
            config=dict(config or {}),
            train_means=weighted_means([(one.seal.n_samples, one.seal.metrics) for one in inputs]),
        )
        return self.judged(record, base)

    def close_attempt(
        self, round_: Attempt, roster: Roster, *, inputs: Sequence[Sealed], excluded: Mapping[str, str]
    ) -> Stored[Verdict]:
        """Close an attempt over these passes; what is there already is used (law 11)."""
        stored = self._decide(
            round_,
            roster,
            verdict="closed",
            inputs=tuple(input_of(sealed, round_.pass_id, policy=self.settings.policy) for sealed in inputs),
            excluded=tuple({"site": site, "reason": why} for site, why in sorted(excluded.items())),
        )
        if stored.doc.verdict == "closed":
            sites = ", ".join(one.site for one in stored.doc.inputs)
            left = "".join(f"; without {one.site}: {one.reason}" for one in stored.doc.excluded)
            text = f"round {round_.pass_id} closes over {sites}{left}"
            self.journal.note(GLOBAL, "verdict", text=text, pass_id=round_.pass_id)
        return stored

    def abort_attempt(
        self, round_: Attempt, roster: Roster, *, code: str, reason: str, redo: Sequence[str] = ()
    ) -> Stored[Verdict]:
        """Give an attempt up; the global stays as it is, and what is sealed stays staged (RFC-0013).

        Returns:
            The verdict that is there now: somebody may have closed the attempt first (law 11).
        """
        stored = self._decide(
            round_, roster, verdict="aborted", code=code, reason=reason, redo=tuple(sorted(redo))
        )
        if stored.doc.verdict == "aborted":
            text = f"round {round_.pass_id}, attempt {round_.attempt} is given up: {reason}"
            self.journal.note(GLOBAL, "verdict", text=text, pass_id=round_.pass_id)
        return stored

    def _decide(self, round_: Attempt, roster: Roster, **fields: Any) -> Stored[Verdict]:
        doc = Verdict.make(
            run_id=self.settings.run_id,
            pass_id=round_.pass_id,
            attempt=round_.attempt,
            roster=roster.number,
            created_at=self.clock.now(),
            **fields,
        )
        path = layout.verdict(round_.pass_id, round_.attempt)
        return self.told(self.documents.create(path, doc))

    def give_up(self, round_: Attempt, *, code: str) -> None:
        """End an attempt after it was closed: its global cannot be made (law 11)."""
        doc = Abort.make(
            run_id=self.settings.run_id,
            pass_id=round_.pass_id,
            attempt=round_.attempt,
            code=code,
            created_at=self.clock.now(),
        )
        self.told(self.documents.create(layout.abort(round_.pass_id, round_.attempt), doc))
        text = f"round {round_.pass_id}, attempt {round_.attempt} is given up: {code}"
        self.journal.note(GLOBAL, "verdict", text=text, pass_id=round_.pass_id)

    def publish_orchestration(self, view: LeadView, *, done: Done | None = None) -> None:
        """Publish the lead's view if it differs from what is there; it never moves backward.

        Args:
            view: the run as the lead sees it.
            done: the end marker, once there is one.
        """
        path = layout.orchestration()
        there, seen = self._orchestration, None
        if there is None and (seen := self.documents.version(path)) is not None:
            with contextlib.suppress(ProtocolError):  # a hint that cannot be read is written over
                there = self.documents.read(path, Orchestration)
        if there is not None:
            view = view.not_before(there.doc)
            if view.is_behind(there.doc, done=done):
                return
        current = view.current_pass(done)
        doc = Orchestration.make(
            run_id=self.settings.run_id,
            current_pass=current,
            phase="complete" if done else view.phase,
            directive=Directive(
                expected=() if done else view.roster.expected_in(current, view.attempt),
                base=view.base,
                round_seed=self.seed(current),
                config=self._directed(view.base),
            ),
            site_status=dict(view.site_status),
            term=self._term(there),
            attempt=0 if done else view.attempt,
            state=RoundState.CLOSED.value if done else view.state.value,
            opened_at=view.opened_at,
            deadline=view.deadline,
            final_pass=done.final_pass if done else None,
            reason=done.reason if done else None,
            best=self.published_best(done.final_pass if done else view.base),
            created_at=self.clock.now(),
        )
        if there is None or not doc.agrees(there.doc):
            # None after a conflict: a rival lead published; the next turn reads what it said.
            there = self.documents.replace(path, doc, etag=there.entry.etag if there else seen)
        self._orchestration = there

    def _directed(self, base: int | None) -> dict[str, object]:
        """What the sites are told to train with; what they obey is the seal of the base itself."""
        sealed = self.mirror.sealed(PassRef(base)) if base is not None else None
        said = sealed.seal.next_config if sealed is not None else {}
        return {**self.settings.hyper, **self.settings.train_config, **said}

    def forget_orchestration(self) -> None:
        """Read it anew at the next look: what was published is news for this process's own loop too."""
        self._orchestration = None

    def orchestration_moved(self) -> bool:
        """Whether somebody else published: a rival lead, or a person who changed the roster or ended the run.

        One conditional request.
        """
        known = self._orchestration
        if known is None:
            return True
        got = self.lanes.read(layout.orchestration(), limit=MAX_BYTES, unless=known.entry.etag)
        if got is not None and got[0].etag == known.entry.etag:
            return False
        self._orchestration = None
        return True

    def _term(self, there: Stored[Orchestration] | None) -> int:
        """Our term; without the lease, in a finished run, the one published last, so as not to go back."""
        held = self.seats[GLOBAL].term if GLOBAL in self.seats else 0
        return held or (there.doc.term if there else 0)

    def write_end_marker(self, final_pass: int | None, reason: str) -> Done:
        """Create the one document that ends the run for everybody, and publish it; the first one holds.

        Args:
            final_pass: the last global that counts; None for none.
            reason: why the run ends, for people.

        Raises:
            ConfigError: this actor is not the lead.
            ProtocolError: the final global is not whole in the store.
        """
        self.require_lead()
        sealed = self.require_global(final_pass) if final_pass is not None else None
        doc = Done.make(
            run_id=self.settings.run_id,
            final_pass=final_pass,
            final_metrics_sha256=sealed.sha256 if sealed else None,
            reason=reason,
            created_at=self.clock.now(),
        )
        done = self.told(self.documents.create(layout.done(), doc)).doc
        self.publish_orchestration(LeadView(self.roster(), final_pass, {}), done=done)
        self.journal.note(GLOBAL, "done", text=f"run {self.settings.run_id} ended: {done.reason}")
        return done


def input_of(sealed: Sealed, round_: int, *, policy: Policy | None = None) -> Input:
    """What verdicts and records say of a site pass that round `round_` meets.

    Args:
        sealed: the pass.
        round_: the global to be made.
        policy: says what it shall weigh, where it is used.
    """
    seal = sealed.seal
    staleness = round_ - 1 - (seal.base_pass or 0)
    return Input.model_validate(
        {
            "site": sealed.ref.site,
            "pass": sealed.ref.number,
            "attempt": seal.attempt,
            "model_sha256": seal.model_sha256,
            "metrics_sha256": sealed.sha256,
            "n_samples": seal.n_samples,
            "staleness": staleness,
            "weight": policy.weight(staleness) if policy else None,
            "model_file": seal.model_file,
        }
    )
