"""Rounds made again, as values; and as `clif-stitch replay` shows them: each metric beside the run's own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich.table import Table

from stitch.views.render import table
from stitch.views.words import names, number


@dataclass(frozen=True, slots=True)
class Replayed:
    """One round made again.

    Attributes:
        inputs: the sites used; empty where nobody was left, and nothing was made.
        metrics, model_sha256: what came out.
        own_metrics, own_sha256: the run's own global of that number.
    """

    pass_id: int
    inputs: tuple[str, ...]
    n_samples: int
    metrics: Mapping[str, float]
    model_sha256: str
    own_metrics: Mapping[str, float]
    own_sha256: str


def replay_table(outcomes: Sequence[Replayed]) -> Table:
    """One line a round and metric; of a hook without metrics, whether the model is the same."""
    grid = table("pass", "inputs", "of", "the run", "replayed", numbers=("pass", "the run", "replayed"))
    for one in outcomes:
        head = (str(one.pass_id), names(one.inputs) or "nobody was left")
        grid.add_row(*head, "model", one.own_sha256[:12], one.model_sha256[:12] or "-")
        for name in sorted({*one.own_metrics, *one.metrics}):
            grid.add_row("", "", name, _value(one.own_metrics, name), _value(one.metrics, name))
    return grid


def _value(metrics: Mapping[str, float], name: str) -> str:
    return number(metrics[name]) if name in metrics else "-"
