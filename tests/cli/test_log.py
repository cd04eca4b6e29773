"""`clif-stitch log`: the hook's own words."""

from __future__ import annotations

import pytest

from tests.cli.federation import Federation, Site


@pytest.fixture
def lead(federation: Federation) -> Site:
    """The lead's project with logs of two passes, as the hook runner leaves them."""
    site = federation.lead
    for name, text in {
        "pass_001/train.log": "one trains\n",
        "pass_001/aggregate.log": "one aggregates\n",
        "pass_010/train.log": "ten trains: caf\u00e9\n",
        "pass_010/evaluate.log": "ten evaluates\n",
        "pass_011/other.txt": "no log\n",
        "try/train/train.log": "a trial\n",
    }.items():
        site.write(f"runs/icu/{name}", text)
    return site


def test_the_newest_pass_by_number_is_shown_whole(lead: Site) -> None:
    said = lead.call("log")
    assert said.code == 0
    assert [line for line in said.out.splitlines() if line.startswith("==")] == [
        "== runs/icu/pass_010/train.log",
        "== runs/icu/pass_010/evaluate.log",
    ]
    assert "ten evaluates" in said.out
    assert "one" not in said.out


@pytest.mark.parametrize(
    ("words", "first"),
    [
        (("--pass", "1"), "one trains"),
        (("--pass", "1", "--hook", "aggregate"), "one aggregates"),
        (("--hook", "aggregate"), "one aggregates"),
        (("--hook", "evaluate"), "ten evaluates"),
    ],
)
def test_a_pass_and_a_hook_can_be_chosen(lead: Site, words: tuple[str, ...], first: str) -> None:
    assert lead.call("log", *words).out.splitlines()[1] == first


@pytest.mark.parametrize("words", [("--pass", "2"), ("--pass", "10", "--hook", "aggregate")])
def test_a_log_that_is_not_there_is_said(lead: Site, words: tuple[str, ...]) -> None:
    said = lead.call("log", *words)
    assert said.code == 2
    assert "has run here" in said.cause
    assert "clif-stitch try train" in said.todo


def test_it_shows_what_the_hook_of_a_real_run_printed(federation: Federation) -> None:
    federation.nu.hooks("    base =", '    print("I was here")\n    base =')
    federation.finish()
    assert "I was here" in federation.nu.call("log", "--hook", "train").out
