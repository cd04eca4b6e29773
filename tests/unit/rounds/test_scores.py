"""Means over the sites: exact, rounded once, whoever comes first."""

from __future__ import annotations

import sys
from decimal import Decimal, localcontext

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stitch.rounds import weighted_means

REPORTS = st.lists(
    st.tuples(
        st.integers(0, 2**63 - 1),
        st.dictionaries(
            st.sampled_from(["auroc", "loss", "brier"]),
            st.floats(allow_nan=False, allow_infinity=False, min_value=-1e12, max_value=1e12),
        ),
    ),
    max_size=6,
)


def by_decimals(reports: list[tuple[int, dict[str, float]]], name: str) -> float:
    """The same by another arithmetic: 1,500 digits hold every double and every product exactly."""
    with localcontext() as context:
        context.prec = 1500
        values = [(Decimal(n), Decimal(metrics[name])) for n, metrics in reports if name in metrics]
        return float(sum((n * x for n, x in values), Decimal(0)) / sum(n for n, _ in values))


@given(REPORTS)
def test_the_means_are_exact_and_do_not_depend_on_the_order(
    reports: list[tuple[int, dict[str, float]]],
) -> None:
    means = weighted_means(reports)
    assert weighted_means(reports[::-1]) == means
    assert list(means) == sorted({name for n, metrics in reports if n for name in metrics})
    for name, value in means.items():
        assert value == by_decimals(reports, name)


def test_each_metric_is_weighted_over_those_who_reported_it() -> None:
    reports = [(100, {"auroc": 0.7, "loss": 0.5}), (300, {"auroc": 0.8}), (0, {"auroc": 0.1, "odd": 1.0})]
    means = weighted_means(reports)
    assert means["auroc"] == pytest.approx(0.775)
    assert means["loss"] == 0.5
    assert set(means) == {"auroc", "loss"}


def test_whoever_reports_nothing_leaves_nothing() -> None:
    assert weighted_means([]) == {}
    assert weighted_means([(0, {"auroc": 0.5})]) == {}


def test_the_largest_doubles_do_not_overflow() -> None:
    most = sys.float_info.max
    assert weighted_means([(2**63 - 1, {"x": most}), (2**63 - 1, {"x": most})]) == {"x": most}
    assert weighted_means([(1, {"x": most}), (1, {"x": -most})]) == {"x": 0.0}


def test_of_too_many_names_those_that_most_reported_are_kept() -> None:
    """A site that makes up names cannot push out what all report."""
    shared = {"zz_auroc": 0.5}
    flood = {f"a{number:02d}": 1.0 for number in range(63)}
    more = {f"b{number:02d}": 1.0 for number in range(63)}
    means = weighted_means([(10, shared | flood), (10, shared | more)])
    assert len(means) == 64
    assert means["zz_auroc"] == 0.5
    assert set(flood) <= set(means)
    assert set(means) & set(more) == set()
