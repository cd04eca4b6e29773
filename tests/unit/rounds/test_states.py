"""A round's state follows from its files alone."""

from __future__ import annotations

import itertools

import pytest

from stitch.rounds import RoundFiles, RoundState, derive


@pytest.mark.parametrize(
    ("files", "state"),
    [
        (RoundFiles(), RoundState.OPEN),
        (RoundFiles(started=1, needed=2), RoundState.OPEN),
        (RoundFiles(started=2, needed=2), RoundState.COLLECTING),
        (RoundFiles(started=2, closed=True), RoundState.AGGREGATING),
        (RoundFiles(closed=True, candidate=True), RoundState.COMMITTING),
        (RoundFiles(closed=True, candidate=True, sealed=True), RoundState.CLOSED),
        (RoundFiles(aborted=True), RoundState.ABORTED),
        (RoundFiles(closed=True, candidate=True, aborted=True), RoundState.ABORTED),
    ],
)
def test_the_state_is_what_the_files_say(files: RoundFiles, state: RoundState) -> None:
    assert derive(files) is state


def test_a_sealed_global_overrules_everything_else() -> None:
    """Law 2: also an abort of its round."""
    for aborted, closed, candidate in itertools.product((False, True), repeat=3):
        files = RoundFiles(sealed=True, aborted=aborted, closed=closed, candidate=candidate)
        assert derive(files) is RoundState.CLOSED


def test_a_candidate_without_a_verdict_is_no_progress() -> None:
    """It was made for an attempt that is over, or by another process."""
    assert derive(RoundFiles(candidate=True)) is RoundState.OPEN
