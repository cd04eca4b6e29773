"""A hook's process that survives everybody and goes on writing changes nothing."""

from __future__ import annotations

import pytest

from tests.e2e.conftest import Undisturbed, one_store
from tests.e2e.ending import check_ending
from tests.e2e.federation import Federation, lives


@one_store
@pytest.mark.parametrize("marked", ["marked", "unmarked"])
@pytest.mark.parametrize(
    ("site", "point"),
    [("nu", "train-1-written"), ("rush", "aggregate-1-written")],
    ids=["train", "aggregate"],
)
def test_an_orphan_writes_into_nothing_that_counts(
    fed: Federation, undisturbed: Undisturbed, site: str, point: str, marked: str
) -> None:
    """It killed guard and actor. A marked one is ended by the next start; the other writes to the end."""
    other = fed.start("nu" if site == "rush" else "rush")
    fed.order(site, point, f"orphan {marked}")
    fed.start(site).is_killed()
    notice = fed.home(site) / "data" / "orphan.pid"
    fed.wait_until(
        lambda: notice.exists() and notice.read_text(encoding="utf-8"), "the orphan tells who it is"
    )
    orphan = int(notice.read_text(encoding="utf-8"))
    assert lives(orphan)
    fed.finish(other)
    assert lives(orphan) == (marked == "unmarked")
    check_ending(fed, wanted=undisturbed(fed), untidy=site if marked == "unmarked" else "")
