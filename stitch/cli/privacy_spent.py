"""What this site's data have given away so far, in lines for people."""

from __future__ import annotations

from stitch.client.budget import budget_of, journal_of, noise_of, plan_left
from stitch.config import Settings
from stitch.errors import ConfigError
from stitch.views.words import plain


def spent_lines(settings: Settings) -> list[str]:
    """The journal summed up, at most 80 columns but for its path.

    Raises:
        ConfigError: the run is not private.
        PrivacyError: the journal was altered or cannot be read.
    """
    if settings.privacy.mode is None:
        raise ConfigError(
            "stitch.toml has no [privacy] mode: nothing is charged", hint="docs/privacy.md tells how."
        )
    journal, budget = journal_of(settings), budget_of(settings)
    releases = journal.releases()
    spent = budget.spent(one.sigma for one in releases)
    runs = sorted({one.run for one in releases})
    sigma = noise_of(settings)
    possible, wanted = plan_left(settings, releases)
    return [
        f"data set {settings.privacy.dataset}: {len(releases)} releases",
        f"  spent   epsilon {spent:.4g} of {budget.epsilon:g} at delta {budget.delta:g} ({budget.adjacency})",
        f"  left    {possible} of {wanted} passes of {settings.run_id}, noise_multiplier {sigma:g}",
        *(f"  {plain(run)}: {sum(one.run == run for one in releases)} releases" for run in runs),
        f"  {journal.file}",
    ]
