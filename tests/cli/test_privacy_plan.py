"""`clif-stitch privacy plan`, as a person types it."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from stitch.cli.app import app
from stitch.errors import ConfigError
from stitch.rounds.accountant import Budget


def plan(*words: str) -> str:
    result = CliRunner().invoke(app, ["privacy", "plan", *words], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def refused(*words: str) -> ConfigError:
    result = CliRunner().invoke(app, ["privacy", "plan", *words])
    assert isinstance(result.exception, ConfigError)
    return result.exception


ISSUE = ("--epsilon", "8", "--delta", "1e-5", "--passes", "50")


def test_it_prints_the_noise_the_cost_of_a_pass_and_what_remains() -> None:
    out = plan(*ISSUE)
    assert "noise_multiplier  4.245 " in out
    assert "one pass costs    epsilon 0.8" in out
    last = out.rstrip().splitlines()[-1].split()
    assert last[0] == "50"
    assert 7.99 < float(last[1]) <= 8.0
    assert float(last[2]) < 0.01
    assert all(len(line) <= 80 and line.isascii() for line in out.splitlines())


def test_for_programs_it_is_json_whose_noise_keeps_the_budget() -> None:
    said = json.loads(plan(*ISSUE, "--json"))
    assert said["kind"] == "stitch.privacy_plan/1"
    assert Budget(8, 1e-5).holds([said["noise_multiplier"]] * 50)
    assert [one["passes"] for one in said["after"]] == [1, 12, 25, 38, 50]
    assert [one["spent"] for one in said["after"]] == sorted(one["spent"] for one in said["after"])


def test_protecting_any_two_data_sets_doubles_the_noise() -> None:
    once, twice = json.loads(plan(*ISSUE, "--json")), json.loads(plan(*ISSUE, "--json", "--replace"))
    ratio = twice["noise_multiplier"] / once["noise_multiplier"]
    assert ratio == pytest.approx(2.0, rel=1e-3)


def test_an_impossible_plan_is_named_with_what_would_be_possible() -> None:
    error = refused(*ISSUE, "--noise", "1")
    assert str(error) == "noise_multiplier 1 permits 2 of 50 passes within epsilon 8, delta 1e-05"
    assert error.hint == "Take noise_multiplier 4.245, or fewer passes."
    assert error.exit_code == 2


@pytest.mark.parametrize(
    "words",
    [
        ("--epsilon", "0", "--delta", "1e-5", "--passes", "5"),
        ("--epsilon", "8", "--delta", "1", "--passes", "5"),
        ("--epsilon", "8", "--delta", "1e-5", "--passes", "0"),
        ("--epsilon", "8", "--delta", "1e-5", "--passes", "5", "--noise", "0"),
        ("--epsilon", "8", "--delta", "1e-5", "--passes", "5", "--noise", "nan"),
    ],
)
def test_a_plan_that_means_nothing_is_refused_in_two_lines(words: tuple[str, ...]) -> None:
    error = refused(*words)
    assert error.hint.startswith("Wanted")
