"""`demo --privacy`: the same federation with clip, noise and a budget."""

from __future__ import annotations

import re
from pathlib import Path

from rich.console import Console

from stitch.client.budget import budget_of, journal_of, noise_of
from stitch.config import Settings, load_settings
from stitch.files import disk

TABLE = """
[privacy]  # docs/privacy.md; three sites can learn little within a budget as small as 8
mode = "local"
clip = 1.0
epsilon = 50.0
delta = 1e-5
data_free_start = true
frozen = ["median", "center", "scale"]
"""

LOCAL_STEPS = 40
"""Gradient steps a pass: where each pass costs, it should learn as much as the clip lets through."""


def make_private(toml: Path) -> None:
    """Add the table to a rendered project's settings."""
    with disk(toml):
        text = toml.read_text(encoding="utf-8")
        text = re.sub(r"(?m)^local_steps = .*$", f"local_steps = {LOCAL_STEPS}", text)
        toml.write_text(text + TABLE, encoding="utf-8", newline="\n")


def tell_spent(home: Path, out: Console, *, shown: str) -> None:
    """What the lead's own data gave away, from its journal."""
    settings = load_settings(home, {})
    for line in _lines(settings, shown):
        out.out(line, highlight=False)


def _lines(settings: Settings, shown: str) -> list[str]:
    releases = journal_of(settings).releases()
    budget = budget_of(settings)
    spent = budget.spent(one.sigma for one in releases)
    clip, sigma = settings.privacy.clip, noise_of(settings)
    paid = f"the {len(releases)} passes of {settings.site} spent"
    return [
        f"clip {clip:g}, noise_multiplier {sigma:g}: {paid}",
        f"epsilon {spent:.4g} of {budget.epsilon:g} at delta {budget.delta:g} ({shown})",
        "n_samples and the scores above left as they are: no part of the promise",
    ]
