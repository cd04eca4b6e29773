"""What `doctor` says of a private run: its budget, its journal, and what leaves beside the models."""

from __future__ import annotations

from collections.abc import Iterator

from stitch.cli.checks import Check, fail, ok, warn
from stitch.client.budget import budget_of, journal_of, noise_of, plan_left
from stitch.config import Settings
from stitch.errors import PrivacyError


def budget(settings: Settings) -> Iterator[Check]:
    """Whether the passes that are left fit into what is left of the data set's budget."""
    name = "privacy"
    if settings.privacy.mode is None:
        return
    try:
        releases = journal_of(settings).releases()
    except PrivacyError as error:
        yield fail(name, error)
        return
    agreed, sigma = budget_of(settings), noise_of(settings)
    possible, wanted = plan_left(settings, releases)
    if possible < wanted:
        yield warn(
            name,
            f"noise_multiplier {sigma:g} permits {possible} of the {wanted} passes that are left "
            f"within epsilon {agreed.epsilon:g}",
            todo="Plan anew before the run begins: clif-stitch privacy plan.",
        )
    else:
        spent = agreed.spent(one.sigma for one in releases)
        yield ok(name, f"epsilon {spent:.4g} of {agreed.epsilon:g} spent, noise_multiplier {sigma:g}")
    if settings.egress.metrics != ():
        yield warn(
            name,
            "metrics leave as computed, outside the promise",
            todo="[egress] metrics = [] keeps them here.",
        )
