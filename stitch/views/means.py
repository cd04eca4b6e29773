"""Means over the sites, as the globals' seals hold them, or from what is there."""

from __future__ import annotations

from collections.abc import Sequence

from stitch.rounds import weighted_means
from stitch.views.status import Evaluation, Means
from stitch.wire import RoundRecord


def train_means(record: RoundRecord | None) -> Means | None:
    """Of the passes that a global was made of; None for global 0 and for runs of older versions."""
    if record is None or record.train_means is None:
        return None
    sites = tuple(one.site for one in record.inputs)
    return Means(sites, sum(one.n_samples for one in record.inputs), dict(record.train_means), sealed=True)


def evaluation_means(after: RoundRecord | None, scores: Sequence[Evaluation]) -> Means | None:
    """Of the sites' scores of one global; None where no site has told any.

    Args:
        after: the record of the next global, which holds them once it is sealed.
        scores: what the sites have told so far, as far as it can be read from here.
    """
    if after is not None and after.evaluated is not None:
        counted = after.evaluated.sites
        names, total = tuple(one.site for one in counted), sum(one.n_samples for one in counted)
        return Means(names, total, dict(after.evaluated.means), sealed=True) if names else None
    told = sorted((one.site, one.n_samples, one.metrics) for one in scores if one.n_samples)
    if not told:
        return None
    reports = [(n_samples or 0, metrics) for _, n_samples, metrics in told]
    total = sum(n_samples for n_samples, _ in reports)
    return Means(tuple(site for site, _, _ in told), total, weighted_means(reports), sealed=False)
