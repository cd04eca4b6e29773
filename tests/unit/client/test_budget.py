"""The journal of what a data set gave away: durable, once a release, and believed only if it is whole."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from stitch.client.budget import BudgetJournal, Release
from stitch.errors import PrivacyBudgetExceeded, PrivacyError
from stitch.rounds.accountant import Budget

BUDGET = Budget(8.0, 1e-5)


def release(number: int, *, sigma: float = 2.0, run: str = "icu") -> Release:
    return Release("default", run, number, 0, sigma, 1.0, f"{number:064x}", "2026-01-01T00:00:00Z")


def journal(folder: Path) -> BudgetJournal:
    return BudgetJournal(folder / "privacy", dataset="default")


def test_a_charge_is_there_for_the_next_process_and_counted_once(tmp_path: Path) -> None:
    assert journal(tmp_path).charge(release(1), budget=BUDGET)
    assert not journal(tmp_path).charge(release(1), budget=BUDGET)
    assert journal(tmp_path).charge(release(2, run="icu-2"), budget=BUDGET)
    assert journal(tmp_path).releases() == [release(1), release(2, run="icu-2")]


def test_what_does_not_fit_is_not_written(tmp_path: Path) -> None:
    kept = journal(tmp_path)
    fits = BUDGET.passes(2.0, most=50)
    for number in range(fits):
        kept.charge(release(number), budget=BUDGET)
    before = kept.file.read_bytes()
    with pytest.raises(PrivacyBudgetExceeded, match=f"{fits} releases of data set default spent 7") as full:
        kept.charge(release(99), budget=BUDGET)
    assert "the lead drops it" in full.value.hint
    assert kept.file.read_bytes() == before
    kept.charge(release(99, sigma=1e5), budget=BUDGET)


def test_no_line_can_be_altered_dropped_or_moved(tmp_path: Path) -> None:
    kept = journal(tmp_path)
    for number in range(3):
        kept.charge(release(number), budget=BUDGET)
    lines = kept.file.read_bytes().splitlines(keepends=True)
    for damaged in (
        [lines[0], lines[2]],
        [lines[1], lines[0], lines[2]],
        [lines[0], lines[1].replace(b'"site_pass": 1', b'"site_pass": 7'), lines[2]],
        [lines[0], lines[1][:-10]],
        [b"{}\n"],
        [lines[0].replace(b"2.0", b"0.0")],
    ):
        kept.file.write_bytes(b"".join(damaged))
        with pytest.raises(PrivacyError, match=r"altered or damaged at line [123]"):
            kept.releases()
        with pytest.raises(PrivacyError):
            kept.charge(release(9), budget=BUDGET)


def test_a_release_may_stand_in_the_journal_of_another_data_set(tmp_path: Path) -> None:
    journal(tmp_path).charge(release(1), budget=BUDGET)
    other = BudgetJournal(tmp_path / "privacy", dataset="other")
    other.require_complete([release(1).release_sha256])
    with pytest.raises(PrivacyError, match=r"other\.jsonl is missing"):
        other.require_complete([release(2).release_sha256])


def test_noise_too_weak_for_a_first_pass_is_said_to_be_that(tmp_path: Path) -> None:
    with pytest.raises(PrivacyBudgetExceeded, match="0 releases of data set default spent 0") as weak:
        journal(tmp_path).charge(release(1, sigma=0.1), budget=BUDGET)
    assert "a larger noise_multiplier" in weak.value.hint


def test_runs_side_by_side_take_turns(tmp_path: Path) -> None:
    """Eight at once want the last of a budget: as many get some as it holds, and no line is lost."""
    fits = BUDGET.passes(2.0, most=50)
    for number in range(fits - 3):
        journal(tmp_path).charge(release(number), budget=BUDGET)
    refused: list[int] = []

    def charge(number: int) -> None:
        try:
            journal(tmp_path).charge(release(number), budget=BUDGET)
        except PrivacyBudgetExceeded:
            refused.append(number)

    threads = [threading.Thread(target=charge, args=(100 + number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(refused) == 5
    assert len(journal(tmp_path).releases()) == fits
