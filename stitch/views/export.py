"""A run's state for machines: the JSON contract and the CSV table (docs/status-json.md)."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
from collections.abc import Iterator, Mapping
from datetime import datetime

from stitch.views.status import GlobalPass, PassStatus, RunStatus, SitePass

KIND = "stitch.status/1"
"""Fields may be added under this number; none is renamed, removed or given another meaning."""

COLUMNS = (
    "run_id",
    "pass",
    "lane",
    "site",
    "attempt",
    "base_pass",
    "staleness",
    "fate",
    "used_by",
    "ready",
    "n_samples",
    "model_bytes",
    "model_sha256",
    "sealed_at",
)
"""Of the CSV, before one `metric.<name>` a metric and one `evaluated.<name>` a score of a global."""

_STARTS_A_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def as_json(status: RunStatus) -> str:
    """The status as one JSON object, ASCII, indented."""
    return json.dumps({"kind": KIND, **_fields(status)}, indent=2, ensure_ascii=True, allow_nan=False) + "\n"


def as_csv(status: RunStatus) -> str:
    """One row a site and pass, and one a global; a score of global k stands in the site's row of pass k."""
    rows = [row for item in status.passes for row in _rows(status, item)]
    extra = sorted({name for row in rows for name in row if name not in COLUMNS})
    text = io.StringIO()
    writer = csv.DictWriter(text, [*COLUMNS, *extra], restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: as_cell(value) for name, value in row.items()} for row in rows)
    return text.getvalue()


def _fields(value: object) -> dict[str, object]:
    """A dataclass as a JSON object; `global_` loses the underscore that Python needs."""
    assert dataclasses.is_dataclass(value)  # noqa: S101  narrows the type for `fields`
    named = ((field.name.rstrip("_"), getattr(value, field.name)) for field in dataclasses.fields(value))
    return {name: _plain(item) for name, item in named}


def _plain(value: object) -> object:
    if isinstance(value, datetime):
        return as_stamp(value)
    if dataclasses.is_dataclass(value):
        return _fields(value)
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value


def as_stamp(moment: datetime) -> str:
    """A time as text: RFC 3339, UTC, in milliseconds."""
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _rows(status: RunStatus, item: PassStatus) -> Iterator[dict[str, object]]:
    scores = {score.site: score.metrics for score in item.evaluated}
    if item.global_ is not None:
        row = _row(status, item.global_, lane="global", site="")
        for name, means in (("train_mean", item.train_means), ("evaluation_mean", item.evaluation_means)):
            row |= {f"{name}.{key}": value for key, value in means.metrics.items()} if means else {}
        own_scores = item.central.metrics if item.central else {}
        row |= {f"central.{key}": value for key, value in own_scores.items()}
        yield row
    for own in item.sites:
        row = _row(status, own, lane=f"sites/{own.site}", site=own.site)
        row |= {"base_pass": own.base_pass, "staleness": own.staleness}
        row |= {"fate": own.fate, "used_by": own.used_by}
        yield row | {f"evaluated.{name}": value for name, value in scores.pop(own.site, {}).items()}
    for site, metrics in scores.items():
        head = {"run_id": status.run_id, "pass": item.pass_id, "lane": f"sites/{site}", "site": site}
        yield head | {f"evaluated.{name}": value for name, value in metrics.items()}


def _row(status: RunStatus, sealed: GlobalPass | SitePass, *, lane: str, site: str) -> dict[str, object]:
    row: dict[str, object] = {
        "run_id": status.run_id,
        "pass": sealed.pass_id,
        "lane": lane,
        "site": site,
        "attempt": sealed.attempt,
        "ready": "yes" if sealed.ready else "no",
        "n_samples": sealed.n_samples,
        "model_bytes": sealed.model_bytes,
        "model_sha256": sealed.model_sha256,
        "sealed_at": as_stamp(sealed.sealed_at),
    }
    return row | {f"metric.{name}": value for name, value in sealed.metrics.items()}


def as_cell(value: object) -> object:
    """A value in CSV: a text that a spreadsheet would run as a formula is quoted."""
    if isinstance(value, str) and value.startswith(_STARTS_A_FORMULA):
        return "'" + value
    return "" if value is None else value
