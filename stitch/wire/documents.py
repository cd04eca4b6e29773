"""The documents beside the passes: run, roster, lease, liveness, events, end."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer

from stitch.wire.base import Document, Part, Sha256, SiteId, Time
from stitch.wire.seal import MAX_COUNT, Count, MetricName, Number

Phase = Literal["initializing", "training", "aggregating", "complete"]
Liveness = Literal["idle", "training", "aggregating", "waiting", "released"]
Seconds = Annotated[float, Field(gt=0)]
Serial = Annotated[int, Field(ge=1, le=MAX_COUNT)]


class Manifest(Document):
    """Settings, versions and seeds, written before pass 0; the root of the hash chain.

    Attributes:
        settings: what `config_sha256` covers, readable, so that a difference can be named.
        root_seed: every round's seed derives from it.
    """

    NAME: ClassVar[str] = "manifest"

    run_id: str
    lead: SiteId
    settings: dict[str, Any]
    config_sha256: Sha256
    root_seed: Count
    stitch_version: str
    created_at: Time


class RosterSite(Part):
    """One site of a roster.

    Attributes:
        state: a paused site is not waited for.
        key: its public key's fingerprint, once signing is on.
        since, since_attempt: the first round, and its first attempt, that waits for it: whoever
            joins later does so between two attempts.
    """

    site: SiteId
    state: Literal["active", "paused"] = "active"
    key: str | None = None
    since: Count = 1
    since_attempt: Count = 0

    def takes_part(self, pass_id: int, attempt: int) -> bool:
        """Whether this attempt of the round waits for it."""
        return self.state == "active" and (self.since, self.since_attempt) <= (pass_id, attempt)


class Roster(Document):
    """Who takes part, from this roster on; the newest holds."""

    NAME: ClassVar[str] = "roster"

    run_id: str
    number: Serial
    sites: tuple[RosterSite, ...]
    reason: str = ""
    created_at: Time

    @property
    def expected(self) -> tuple[str, ...]:
        """The active sites, sorted."""
        return tuple(sorted(entry.site for entry in self.sites if entry.state == "active"))

    def expected_in(self, pass_id: int, attempt: int) -> tuple[str, ...]:
        """The sites that this attempt of round `pass_id` waits for, sorted.

        Where nobody else is left, those who would join later are waited for at once.
        """
        begun = tuple(sorted(entry.site for entry in self.sites if entry.takes_part(pass_id, attempt)))
        return begun or self.expected


class Term(Document):
    """One process's claim of a lane; the newest number holds (law 10)."""

    NAME: ClassVar[str] = "term"

    run_id: str
    lane: str
    term: Serial
    nonce: str
    host: str
    interval_s: Seconds
    created_at: Time


class Heartbeat(Document):
    """A lane's liveness. It counts only with the nonce of the newest term.

    Attributes:
        beat: a counter; a reader without the store's time watches it change.
        pass_id: what the actor is working on.
    """

    NAME: ClassVar[str] = "heartbeat"

    run_id: str
    lane: str
    nonce: str
    term: Count
    host: str
    beat: Count
    interval_s: Seconds
    state: Liveness
    pass_id: Count | None = None


class Join(Document):
    """What a site runs; a new number whenever it changes."""

    NAME: ClassVar[str] = "join"

    run_id: str
    site: SiteId
    config_sha256: Sha256
    hooks_sha256: Sha256 | None
    contract: str
    pins: dict[str, Sha256] = Field(default_factory=dict)
    public_key: str | None = None
    stitch_version: str
    created_at: Time


class EventDoc(Document):
    """A started, completed, failed or evaluated event of a site pass.

    Attributes:
        attempt: the training attempt, from 1.
        base_pass, base_sha256: of a started event, the global trained from.
        model_sha256, n_samples, metrics: of a completed or evaluated event, the report back.
        hook, exception, where: of a failed event; `where` is `file:line` of the hook.
        message: the hook's own words, only by opt-in (law 8).
    """

    NAME: ClassVar[str] = "event"

    run_id: str
    site: SiteId
    pass_id: Count
    event: Literal["started", "completed", "failed", "evaluated"]
    attempt: Serial
    created_at: Time
    base_pass: Count | None = None
    base_sha256: Sha256 | None = None
    dataset_root: Sha256 | None = None
    model_sha256: Sha256 | None = None
    n_samples: Count | None = None
    metrics: dict[MetricName, Number] | None = Field(default=None, max_length=64)
    hook: str | None = None
    exception: str | None = None
    where: str | None = None
    message: str | None = None


class Directive(Part):
    """What the lead asks of the sites.

    Attributes:
        expected: the sites the current pass waits for.
        base: the global pass to train from.
        round_seed: the current round's seed.
        config: the `[config]` table.
    """

    expected: tuple[SiteId, ...]
    base: Count | None = None
    round_seed: Count | None = None
    config: dict[str, Any] = Field(default_factory=dict)


class BestGlobal(Part):
    """The best of the globals that were judged when this was published."""

    pass_id: Count = Field(alias="pass")
    metric: MetricName
    value: Number

    model_config = Part.model_config | {"populate_by_name": True, "serialize_by_alias": True}


class Orchestration(Document):
    """The lead's published view: a hint, never the truth; it never moves backward.

    Attributes:
        current_pass: the site pass now wanted.
        site_status: by site, one of joined, training, completed, failed, stalled, unreadable, never seen.
        final_pass, reason: set when the phase is "complete".
        best: the best global so far; None, and not written, where globals are not compared.
    """

    NAME: ClassVar[str] = "orchestration"

    run_id: str
    current_pass: Count
    phase: Phase
    directive: Directive
    site_status: dict[SiteId, str]
    term: Count
    attempt: Count
    state: str
    opened_at: Time | None = None
    deadline: Time | None = None
    final_pass: Count | None = None
    reason: str | None = None
    created_at: Time
    best: BestGlobal | None = None

    @model_serializer(mode="wrap")
    def _without_none(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out what came later and is not used."""
        fields: dict[str, Any] = handler(self)
        return {name: value for name, value in fields.items() if name != "best" or value is not None}


class Done(Document):
    """The end marker: nothing but this ends a run (law 7).

    Attributes:
        final_pass: the last global that counts; null when none was published.
    """

    NAME: ClassVar[str] = "done"

    run_id: str
    final_pass: Count | None
    final_metrics_sha256: Sha256 | None
    reason: str
    created_at: Time
