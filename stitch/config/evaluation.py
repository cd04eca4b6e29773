"""The `[evaluation]` table as a value, with what its keys must be among themselves and beside others."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from stitch.config.hooks import Hooks
from stitch.config.schema import StitchFile
from stitch.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Evaluation:
    """How globals are scored.

    Attributes:
        when: the evaluate hook runs on every global ("always"), or on the "final" one alone.
        best_metric: by which metric globals are compared; None compares none.
        mode: whether more of it is better ("max"), or less ("min").
        patience: after how many globals without a better one the run ends; None: never.
        by: whose means are compared: those of the sites' scores, or where they score no global before
            the final one those of their training.
    """

    when: Literal["always", "final"] = "always"
    best_metric: str | None = None
    mode: Literal["max", "min"] | None = None
    patience: int | None = None
    by: Literal["evaluation", "train"] = "evaluation"

    @property
    def facts(self) -> dict[str, object]:
        """What every actor must agree on: all that decides when a run ends."""
        if self.best_metric is None:
            return {}
        facts: dict[str, object] = {"best_metric": self.best_metric, "mode": self.mode, "by": self.by}
        return facts if self.patience is None else {**facts, "patience": self.patience}


def evaluation_of(toml: StitchFile, hooks: Hooks, *, file: str) -> Evaluation:
    """Check the table against itself, the hooks and what may leave a site.

    Raises:
        ConfigError: an evaluation at the end that no hook makes; a best metric without its direction, or
            one that may not leave; a direction or a patience without a metric.
    """
    evaluation = Evaluation(**toml.evaluation.model_dump(exclude_unset=True))
    where = f"{file}: evaluation"
    if evaluation.when == "final" and hooks.evaluate is None:
        raise ConfigError(
            f'{where}.when = "final" means nothing: [hooks] has no evaluate',
            hint='Name what scores a global, such as evaluate = "code/evaluate.py:evaluate", or remove when.',
        )
    if evaluation.best_metric is None:
        for key in ("mode", "patience"):
            if getattr(evaluation, key) is not None:
                raise ConfigError(
                    f"{where}.{key} means nothing without best_metric",
                    hint='Say by which metric globals are compared, such as best_metric = "auroc".',
                )
        return evaluation
    if evaluation.mode is None:
        raise ConfigError(
            f"{where}.mode is missing: is more of {evaluation.best_metric} better, or less?",
            hint='Write mode = "max" (as for auroc) or mode = "min" (as for a loss).',
        )
    allowed = toml.egress.metrics
    if allowed is not None and evaluation.best_metric not in allowed:
        raise ConfigError(
            f"{where}.best_metric {evaluation.best_metric!r} is not among [egress] metrics",
            hint="Add it there: what leaves no site cannot be compared.",
        )
    scored = hooks.evaluate is not None and evaluation.when == "always"
    return replace(evaluation, by="evaluation" if scored else "train")
