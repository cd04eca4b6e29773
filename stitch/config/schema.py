"""The shape of `stitch.toml`. A field's description is what a person is told was wanted.

Every table forbids keys it does not know. A key that is absent stays unset, so that the defaults
stand in the values alone (`settings.py` and the module of each table).
"""

from __future__ import annotations

import math
import re
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, JsonValue, StringConstraints

from stitch.config.weighting import SHAPES, Weighting

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*([smhd])\Z")
_PYTHON_HOOK = re.compile(r"(?:.+\.py|[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*):[A-Za-z_]\w*\Z")


def seconds(value: object) -> object:
    """A duration in seconds from `"24h"`, `"90m"`, `"30s"`, `"2d"` or a number."""
    if isinstance(value, str):
        match = _DURATION.match(value.strip())
        if match is None:
            raise ValueError("not a duration")
        return float(match[1]) * _UNITS[match[2]]
    return value


def _hook(value: object) -> object:
    if isinstance(value, str) and not _PYTHON_HOOK.match(value):
        raise ValueError("not a hook")
    if isinstance(value, list) and (not value or not all(isinstance(word, str) and word for word in value)):
        raise ValueError("not a command")
    return value


def _function(value: object) -> object:
    if isinstance(value, str) and not _PYTHON_HOOK.match(value):
        raise ValueError("not a Python function")
    return value


def _weighting(value: object) -> object:
    if isinstance(value, str):
        Weighting.parse(value)
    return value


def _finite(value: object) -> object:
    """Refuse what JSON cannot carry, since the lead publishes this table."""
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("not finite")
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        _finite(inner)
    return value


Count = Annotated[int, Field(ge=0, le=1_000_000)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Duration = Annotated[float, BeforeValidator(seconds), Field(gt=0, allow_inf_nan=False)]
Hook = Annotated[str | list[str], BeforeValidator(_hook)]
Function = Annotated[str, BeforeValidator(_function)]
Free = Annotated[dict[str, JsonValue], BeforeValidator(_finite)]
_HOOK = '"path/file.py:function", "package.module:function", or a command as a list of words'


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class PolicyTable(_Table):
    """`[policy]`."""

    require: Literal["all_expected", "quorum", "buffered"] | None = Field(
        default=None, description='"all_expected", "quorum" or "buffered"'
    )
    min_participants: int | None = Field(
        default=None, ge=1, le=1000, description="how many sites a round needs, 1 or more"
    )
    open_timeout: Duration | None = Field(default=None, description='a duration above 0, such as "24h"')
    collect_timeout: Duration | None = Field(default=None, description='a duration above 0, such as "24h"')
    retry_budget: Count | None = Field(default=None, description="a whole number, 0 or more")
    on_mismatch: Literal["abort", "exclude"] | None = Field(default=None, description='"abort" or "exclude"')
    buffer_size: int | None = Field(
        default=None, ge=1, le=1000, description="a whole number of passes, 1 or more"
    )
    window_seconds: Duration | None = Field(
        default=None, description='a number of seconds above 0, or a duration such as "6h"'
    )
    max_staleness: int | None = Field(
        default=None, ge=0, le=1000, description="a whole number of globals, 0 to 1000"
    )
    weighting: Annotated[str, BeforeValidator(_weighting)] | None = Field(default=None, description=SHAPES)


class TransferTable(_Table):
    """`[transfer]`."""

    max_retries: Count | None = Field(default=None, description="a whole number, 0 or more")
    retry_backoff_seconds: Positive | None = Field(default=None, description="a number of seconds above 0")
    max_file_mb: int | None = Field(
        default=None, ge=1, le=1_000_000, description="a whole number of MB, 1 or more"
    )


class HooksTable(_Table):
    """`[hooks]`."""

    train: Hook | None = Field(default=None, description=_HOOK)
    aggregate: Hook | None = Field(default=None, description=_HOOK)
    evaluate: Hook | None = Field(default=None, description=_HOOK)
    evaluate_central: Hook | None = Field(default=None, description=_HOOK)
    diagnose: Hook | None = Field(default=None, description=_HOOK)
    pre_aggregate: Hook | None = Field(default=None, description=_HOOK)
    admit: Hook | None = Field(default=None, description=_HOOK)
    leaves: Function | None = Field(
        default=None, description='"path/file.py:function" or "package.module:function"'
    )
    client: Function | None = Field(
        default=None, description='"path/file.py:Class" or "package.module:Class"'
    )
    strategy: Function | None = Field(
        default=None, description='"path/file.py:Class", "package.module:Class"'
    )
    model_ext: str | None = Field(default=None, description="the models' file extension as text")
    contract: str | None = Field(default=None, min_length=1, max_length=64, description='text, such as "1"')
    timeout_minutes: Positive | None = Field(default=None, description="a number of minutes above 0")


class EvaluationTable(_Table):
    """`[evaluation]`."""

    when: Literal["always", "final"] | None = Field(default=None, description='"always" or "final"')
    best_metric: Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_.-]{0,63}$")] | None = Field(
        default=None, description='the name of a metric, such as "auroc"'
    )
    mode: Literal["max", "min"] | None = Field(default=None, description='"max" or "min"')
    patience: int | None = Field(
        default=None, ge=1, le=1_000_000, description="a whole number of globals, 1 or more"
    )


class TrainTable(_Table):
    """`[train]`."""

    config: Free = Field(default_factory=dict, description="JSON values: no dates, nan or inf")


class EgressTable(_Table):
    """`[egress]`."""

    metrics: list[str] | None = Field(default=None, description="a list of metric names")
    min_n: Count | None = Field(default=None, description="a whole number, 0 or more")
    error_messages: bool | None = Field(default=None, description="true or false")
    outbox: Literal["direct", "review"] | None = Field(default=None, description='"direct" or "review"')


class IntegrityTable(_Table):
    """`[integrity]`."""

    same_train: Literal["warn", "refuse"] | None = Field(default=None, description='"warn" or "refuse"')
    commit: bool | None = Field(default=None, description="true or false")
    reproduce: Literal["off", "warn", "abort"] | None = Field(
        default=None, description='"off", "warn" or "abort"'
    )


class SecurityTable(_Table):
    """`[security]`."""

    sign: bool | None = Field(default=None, description="true or false")
    lead_key: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")] | None = Field(
        default=None, description="the 64 hex digits that `clif-stitch keys` shows at the lead"
    )


class PrivacyTable(_Table):
    """`[privacy]`; what its keys must be among themselves: `config/privacy.py`."""

    mode: Literal["local", "central"] | None = Field(default=None, description='"local" or "central"')
    clip: Positive | None = Field(default=None, description="a length above 0: the most that a delta may be")
    noise_multiplier: Annotated[float, Field(ge=0.01, le=1e6)] | None = Field(
        default=None, description="a number from 0.01 to 1000000"
    )
    epsilon: Annotated[float, Field(gt=0, le=1e6)] | None = Field(
        default=None, description="a number above 0, such as 8.0"
    )
    delta: Annotated[float, Field(gt=0, lt=1)] | None = Field(
        default=None, description="a number above 0 and below 1, such as 1e-5"
    )
    adjacency: Literal["add_remove", "replace"] | None = Field(
        default=None, description='"add_remove" or "replace"'
    )
    data_free_start: bool | None = Field(default=None, description="true or false")
    groups: list[Annotated[str, StringConstraints(min_length=1, max_length=200)]] | None = Field(
        default=None, min_length=1, max_length=1000, description="a list of beginnings of tensor names"
    )
    frozen: list[Annotated[str, StringConstraints(min_length=1, max_length=200)]] | None = Field(
        default=None, max_length=1000, description="a list of beginnings of tensor names"
    )
    pre_release: Hook | None = Field(default=None, description=_HOOK)


class CompressionTable(_Table):
    """`[compression]`."""

    kind: Literal["int8", "top_k"] | None = Field(default=None, description='"int8" or "top_k"')
    keep: Annotated[float, Field(gt=0, le=1)] | None = Field(
        default=None, description="a part above 0, at most 1, such as 0.01"
    )


class StoreTable(_Table):
    """`[store]`."""

    synced: bool | None = Field(default=None, description="true or false")
    ca_bundle: str | None = Field(default=None, min_length=1, description="the path of a .pem file")


class StitchFile(_Table):
    """The whole of `stitch.toml`."""

    run_id: str = Field(description='text, such as "icu-mortality-1"')
    lead: str = Field(description="the id of the leading site")
    sites: list[str] = Field(min_length=1, max_length=1000, description="a list of site ids, at least one")
    num_passes: Count = Field(description="a whole number, 0 or more")
    poll_seconds: Positive | None = Field(default=None, description="a number of seconds above 0")
    heartbeat_minutes: Positive | None = Field(default=None, description="a number of minutes above 0")
    give_up_after: Annotated[float, BeforeValidator(seconds), Field(ge=0, allow_inf_nan=False)] | None = (
        Field(default=None, description='a duration such as "24h", "90m" or "30s"')
    )
    root_seed: int | None = Field(default=None, ge=0, lt=2**63, description="a whole number, 0 or more")
    initial_model: str | None = Field(
        default=None, min_length=1, description='a path, or "run:ID/pass_008" of an earlier run'
    )
    policy: PolicyTable = Field(default_factory=PolicyTable, description="a table")
    transfer: TransferTable = Field(default_factory=TransferTable, description="a table")
    hooks: HooksTable = Field(default_factory=HooksTable, description="a table")
    evaluation: EvaluationTable = Field(default_factory=EvaluationTable, description="a table")
    train: TrainTable = Field(default_factory=TrainTable, description="a table")
    strategy: Free = Field(default_factory=dict, description="a table of the strategy's options")
    egress: EgressTable = Field(default_factory=EgressTable, description="a table")
    integrity: IntegrityTable = Field(default_factory=IntegrityTable, description="a table")
    security: SecurityTable = Field(default_factory=SecurityTable, description="a table")
    compression: CompressionTable = Field(default_factory=CompressionTable, description="a table")
    privacy: PrivacyTable = Field(default_factory=PrivacyTable, description="a table")
    pins: dict[str, JsonValue] = Field(default_factory=dict, description="a table of files and their sha256")
    store: StoreTable = Field(default_factory=StoreTable, description="a table")
    config: Free = Field(default_factory=dict, description="JSON values: no dates, nan or inf")
