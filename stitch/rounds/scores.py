"""Means over the sites, of what they measured while training and of their scores of a global.

Exact arithmetic, rounded once to the nearest double: any second implementation comes to the same
bits, in any order of the sites (docs/protocol.md, Means).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction

MOST_MEANS = 64
"""As many names as a seal's metrics may have."""


def weighted_means(reports: Sequence[tuple[int, Mapping[str, float]]]) -> dict[str, float]:
    """The n-weighted mean of each metric, over those who reported it, sorted by name.

    Where the reports have more than 64 names together, those that the most reports have are kept.

    Args:
        reports: `n_samples` and the finite metrics of each; whoever has no samples weighs nothing.
    """
    counted = [(n_samples, metrics) for n_samples, metrics in reports if n_samples > 0]
    votes = Counter(name for _, metrics in counted for name in metrics)
    kept = sorted(votes, key=lambda name: (-votes[name], name))[:MOST_MEANS]
    return {name: _mean(counted, name) for name in sorted(kept)}


def _mean(reports: Sequence[tuple[int, Mapping[str, float]]], name: str) -> float:
    values = [(n_samples, Fraction(metrics[name])) for n_samples, metrics in reports if name in metrics]
    return float(sum(n * value for n, value in values) / sum(n for n, _ in values))
