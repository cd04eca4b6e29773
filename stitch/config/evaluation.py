"""The `[evaluation]` table as a value, with what its keys must be among themselves and beside others."""

from __future__ import annotations

from dataclasses import replace

from stitch.config.schema import StitchFile
from stitch.config.settings import Evaluation, Hooks
from stitch.errors import ConfigError


def evaluation_of(toml: StitchFile, hooks: Hooks, *, file: str) -> Evaluation:
    """Check the table against itself, the hooks and what may leave a site.

    Raises:
        ConfigError: a best metric without its direction, or one that may not leave; a direction or a
            patience without a metric.
    """
    evaluation = Evaluation(**toml.evaluation.model_dump(exclude_unset=True))
    where = f"{file}: evaluation"
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
