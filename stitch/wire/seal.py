"""`metrics.json`: the seal of a pass, and of a global also the record of its round."""

from __future__ import annotations

import re
from typing import Annotated, Any, ClassVar, Literal

from pydantic import (
    Field,
    SerializerFunctionWrapHandler,
    StrictBool,
    StringConstraints,
    model_serializer,
)

from stitch.wire.base import Document, Part, Sha256, SiteId, Time

MAX_COUNT = 2**63 - 1
"""No count is larger: a longer number is somebody's try to make a sum or a line endless."""

Count = Annotated[int, Field(ge=0, le=MAX_COUNT, strict=True)]
Number = Annotated[float, Field(strict=True)]
Lane = Annotated[str, StringConstraints(pattern=r"^(?:global|sites/[a-z](?:-?[a-z0-9])*)$", max_length=46)]
FileName = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]{0,31}\.[0-9a-f]{12}\.[a-z0-9]{1,16}$")]
_NAME = r"^[A-Za-z_][A-Za-z0-9_.-]{0,63}$"
MetricName = Annotated[str, StringConstraints(pattern=_NAME)]

Scalar = (
    StrictBool
    | Annotated[int, Field(ge=-MAX_COUNT, le=MAX_COUNT, strict=True)]
    | Number
    | Annotated[str, StringConstraints(max_length=1000)]
)
"""A JSON scalar of a config that a seal carries."""


def is_config_name(name: str) -> bool:
    """Whether a value of a sealed config may have this name."""
    return re.fullmatch(_NAME, name) is not None


class Attachment(Part):
    """A further sealed file beside the model; `file` is its name in the store."""

    name: str
    file: FileName
    sha256: Sha256
    bytes: Count

    @property
    def ext(self) -> str:
        """The file's extension."""
        return self.file.rpartition(".")[2]


class Input(Part):
    """One site pass that a round used.

    Attributes:
        staleness: how many globals came between its base and the round.
        weight: what the policy asks its delta to be multiplied with; null where it asks nothing.
    """

    site: SiteId
    pass_id: Count = Field(alias="pass")
    attempt: Count
    model_sha256: Sha256
    metrics_sha256: Sha256
    n_samples: Count
    staleness: Count = 0
    weight: Number | None = None
    model_file: FileName

    model_config = Part.model_config | {"populate_by_name": True, "serialize_by_alias": True}


class Excluded(Part):
    """One site that a round did not use, and why."""

    site: SiteId
    reason: str


class Score(Part):
    """One site's evaluation that the means of a global rest on; `event_sha256` is of the event's bytes."""

    site: SiteId
    n_samples: Count
    event_sha256: Sha256


class Evaluated(Part):
    """What the sites' evaluations of a global come to, as far as they were there.

    Attributes:
        pass_id: the global that was evaluated.
        sites: whose evaluations counted, sorted by site id.
        means: n-weighted, of each metric over the sites that reported it.
    """

    pass_id: Count = Field(alias="pass")
    sites: tuple[Score, ...]
    means: dict[MetricName, Number] = Field(max_length=64)

    model_config = Part.model_config | {"populate_by_name": True, "serialize_by_alias": True}


class RoundRecord(Part):
    """What a global's seal says of its round.

    Attributes:
        policy: the close policy's name.
        attempt: the round's attempt.
        roster: the number of the roster in force.
        verdict_sha256: hash of the verdict document's bytes; null for pass 0.
        inputs: sorted by site id.
        prev_metrics_sha256: hash of the previous global's seal; for pass 0 of the manifest.
        seed: the round's seed.
        should_stop: the aggregate hook wished to end the run.
        final: nobody trains from this global.
        config: what the aggregate hook has the next pass trained with, over `[train] config`; written
            only where there is something in it.
        train_means: n-weighted means of the inputs' metrics; None, and not written, in older records.
        evaluated: the sites' evaluations of the global before; None, and not written, where none is asked.
    """

    policy: str
    attempt: Count
    roster: Count
    verdict_sha256: Sha256 | None
    inputs: tuple[Input, ...]
    excluded: tuple[Excluded, ...] = ()
    late: tuple[Input, ...] = ()
    prev_metrics_sha256: Sha256
    seed: Count
    should_stop: bool = False
    final: bool = False
    config: dict[MetricName, Scalar] = Field(default_factory=dict, max_length=64)
    train_means: dict[MetricName, Number] | None = Field(default=None, max_length=64)
    evaluated: Evaluated | None = None

    @model_serializer(mode="wrap")
    def _without_empty(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out what came later and is not used: such a record has the bytes it always had."""
        fields: dict[str, Any] = handler(self)
        later = {"config": self.config or None, "train_means": self.train_means, "evaluated": self.evaluated}
        unused = {name for name, value in later.items() if value is None}
        return {name: value for name, value in fields.items() if name not in unused}


class Seal(Document):
    """`metrics.json`, byte-identical in mirror and store; the only commit point of a pass.

    Attributes:
        lane: "global" or "sites/<id>".
        attempt: of a site pass the training attempt, which its events share (from 1);
            of a global pass the round's attempt (from 0).
        base_pass, base_sha256: the global it was trained from; null for pass 0.
        model_file: the model's name in the store, with its digest.
        metrics: finite numbers by name.
    """

    NAME: ClassVar[str] = "metrics"

    run_id: str
    lane: Lane
    pass_id: Count
    attempt: Count
    base_pass: Count | None
    base_sha256: Sha256 | None
    model_file: FileName
    model_sha256: Sha256
    model_bytes: Annotated[int, Field(gt=0, le=MAX_COUNT, strict=True)]
    n_samples: Count
    metrics: dict[MetricName, Number] = Field(max_length=64)
    attachments: tuple[Attachment, ...] = ()
    hooks_sha256: Sha256 | None = None
    config_sha256: Sha256
    dataset_root: Sha256 | None = None
    pins: dict[str, Sha256] = Field(default_factory=dict)
    round_seed: Count
    transforms: tuple[str, ...] = ()
    created_at: Time
    stitch_version: str
    round: RoundRecord | None = None

    @property
    def ext(self) -> str:
        """The model's extension."""
        return self.model_file.rpartition(".")[2]

    @property
    def next_config(self) -> dict[str, Scalar]:
        """What a global says the next pass is trained with."""
        return dict(self.round.config) if self.round is not None else {}

    @property
    def final(self) -> bool:
        """Whether this is a global that nobody trains from."""
        return self.round is not None and self.round.final


class Verdict(Document):
    """The one decision of a round's attempt (law 11)."""

    NAME: ClassVar[str] = "verdict"

    run_id: str
    pass_id: Count
    attempt: Count
    roster: Count
    verdict: Literal["closed", "aborted"]
    inputs: tuple[Input, ...] = ()
    excluded: tuple[Excluded, ...] = ()
    code: str | None = None
    reason: str = ""
    redo: tuple[SiteId, ...] = ()
    created_at: Time


class Abort(Document):
    """Written only if an attempt was given up after its verdict."""

    NAME: ClassVar[str] = "abort"

    run_id: str
    pass_id: Count
    attempt: Count
    code: str
    created_at: Time
