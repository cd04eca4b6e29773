"""A run's state as frozen values: what `clif-stitch status` shows, and its JSON contract.

`observe.py` fills these from the documents; `export.py` and `render.py` show them. Every field is
described in docs/status-json.md. Times are the store's, aware, UTC, unless a field says otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Literal


class SiteState(StrEnum):
    """Where a site is. The names are those of orchestration's `site_status`."""

    JOINED = "joined"
    TRAINING = "training"
    COMPLETED = "completed"
    FAILED = "failed"
    STALLED = "stalled"
    UNREADABLE = "unreadable"
    NEVER_SEEN = "never seen"


Alike = Literal["same", "different", "unknown"]
"""How a site's hash compares with the lead's."""

Phase = Literal["not begun", "initializing", "training", "aggregating", "complete"]


@dataclass(frozen=True, slots=True)
class Source:
    """Where the documents were read.

    Attributes:
        kind: the stores, or this machine's mirror alone.
        place: for people; never holds a token.
        reason: why the mirror was read instead of the stores.
    """

    kind: Literal["store", "mirror"]
    place: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Beat:
    """The newest sign of life of a lane: a heartbeat, or the term that began the lease.

    Attributes:
        at: when it was written.
        age_s: seconds since, by the store's clock, or since this process first saw it where the
            store has none; None when neither is known (law 6).
        age_by: which of the two.
        state: what the process said it does; None when only its term was seen.
        pass_id: what it said it works on.
        host: where it runs.
        late: `age_s` is over 3 x `heartbeat_minutes`.
    """

    at: datetime
    age_s: float | None
    age_by: Literal["store", "watching"] | None
    state: str | None
    pass_id: int | None
    host: str
    late: bool


@dataclass(frozen=True, slots=True)
class Failure:
    """The newest failed event of the pass now wanted; nothing of it is patient data (law 8)."""

    pass_id: int
    attempt: int
    hook: str | None
    exception: str | None
    where: str | None
    message: str | None


@dataclass(frozen=True, slots=True)
class SiteStatus:
    """One site.

    Attributes:
        expected: the lead waits for its passes.
        said_by: "lane" when read from the site's own documents, "lead" when taken from
            orchestration because this actor has no store for that lane.
        as_of: of the lead's word, when it was published.
        reason: one line on the state: what is unreadable, what failed, who it was not.
        pass_id: its newest sealed pass.
        hooks: its hooks beside the lead's.
        settings: its `config_sha256` beside the manifest's.
    """

    site: str
    is_lead: bool
    expected: bool
    state: SiteState
    said_by: Literal["lane", "lead"]
    as_of: datetime | None = None
    reason: str = ""
    pass_id: int | None = None
    beat: Beat | None = None
    failure: Failure | None = None
    hooks: Alike = "unknown"
    hooks_sha256: str | None = None
    settings: Alike = "unknown"
    stitch_version: str | None = None


@dataclass(frozen=True, slots=True)
class SitePass:
    """One sealed site pass.

    Attributes:
        staleness: of a used pass, as the round recorded it; else how many globals came since its base.
        ready: its whole model is there; a seal alone is not ready (law 2).
        fate: what the round's global did with it; "open" while no global decided.
        used_by: the global pass that used it.
        excluded: why it was not used.
    """

    site: str
    pass_id: int
    attempt: int
    base_pass: int | None
    staleness: int | None
    n_samples: int
    metrics: Mapping[str, float]
    model_bytes: int
    model_sha256: str
    sealed_at: datetime
    ready: bool
    fate: Literal["used", "excluded", "late", "open"] = "open"
    used_by: int | None = None
    excluded: str = ""


@dataclass(frozen=True, slots=True)
class GlobalPass:
    """One sealed global; `inputs` are the sites whose passes it was made of."""

    pass_id: int
    policy: str | None
    attempt: int
    n_samples: int
    metrics: Mapping[str, float]
    model_bytes: int
    model_sha256: str
    sealed_at: datetime
    ready: bool
    inputs: tuple[str, ...] = ()
    excluded: Mapping[str, str] = field(default_factory=dict)
    final: bool = False
    should_stop: bool = False


@dataclass(frozen=True, slots=True)
class Evaluation:
    """A site's own score of global `pass_id` on its own data."""

    site: str
    pass_id: int
    n_samples: int | None
    metrics: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Means:
    """n-weighted means over several sites.

    Attributes:
        sites: whose numbers counted.
        n_samples: their sum.
        sealed: stands in a global's seal; False: reckoned now, from what could be read.
    """

    sites: tuple[str, ...]
    n_samples: int
    metrics: Mapping[str, float]
    sealed: bool


@dataclass(frozen=True, slots=True)
class PassStatus:
    """Everything sealed under one pass number; `global_` is null while the round is open.

    Attributes:
        train_means: of the site passes that the global was made of.
        evaluation_means: of the sites' scores of the global.
        central: the lead's own score of the global, on its validation set.
    """

    pass_id: int
    global_: GlobalPass | None
    sites: tuple[SitePass, ...]
    evaluated: tuple[Evaluation, ...]
    train_means: Means | None = None
    evaluation_means: Means | None = None
    central: Evaluation | None = None


@dataclass(frozen=True, slots=True)
class BestPass:
    """The best global so far; of equal ones the earliest.

    Attributes:
        metric, mode: by what, and whether more of it is better ("max") or less ("min").
        by: the means of the sites' scores ("evaluation"), or those of their training ("train").
        since: how many globals were compared after it.
        patience: after how many of them the run ends; None: never.
    """

    pass_id: int
    metric: str
    mode: str
    by: str
    value: float
    since: int
    patience: int | None


@dataclass(frozen=True, slots=True)
class Waiting:
    """For whom the lead waits, and since when (the store time of the seal or abort that opened it).

    `deadline` is the time at which that ends, by the lead's word; null without a deadline. `attempt`
    counts from 0: how often the round was given up already.
    """

    sites: tuple[str, ...]
    since: datetime | None
    seconds: float | None
    deadline: datetime | None = None
    attempt: int = 0


@dataclass(frozen=True, slots=True)
class Finish:
    """What the end marker says; `model_sha256` is the final global's."""

    final_pass: int | None
    reason: str
    model_sha256: str | None
    at: datetime


@dataclass(frozen=True, slots=True)
class ConflictCopy:
    """A file that a sync client set aside: two machines wrote one key (law 10)."""

    key: str
    copy: str


@dataclass(frozen=True, slots=True)
class RunStatus:
    """The whole run.

    Attributes:
        store_time: the global lane's clock at the time of reading; None where it has none.
        current_pass: the site pass now wanted.
        num_passes: of the manifest; None while it is unreadable.
        newest_global: the newest global that is ready.
        best: the best global; None where globals are not compared, or none could be yet.
        round_state: OPEN, COLLECTING, ... as the lead last published it.
        lead_beat: the global lane's own sign of life: the process that aggregates.
        problems: what is unreadable or malformed, one line each.
    """

    run_id: str
    lead: str
    source: Source
    store_time: datetime | None
    phase: Phase
    current_pass: int
    num_passes: int | None
    newest_global: int | None
    attempt: int | None
    round_state: str | None
    roster: int | None
    lead_beat: Beat | None
    waiting: Waiting | None
    finished: Finish | None
    sites: tuple[SiteStatus, ...]
    passes: tuple[PassStatus, ...]
    conflicts: tuple[ConflictCopy, ...]
    problems: tuple[str, ...]
    best: BestPass | None = None
