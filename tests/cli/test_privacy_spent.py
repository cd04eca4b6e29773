"""`clif-stitch privacy show` and `doctor`: what a site's data gave away, and whether the plan still fits."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from stitch.cli.app import app
from stitch.cli.checks_privacy import budget
from stitch.client.budget import Release, budget_of, journal_of
from stitch.config import Settings, load_settings
from stitch.errors import ConfigError, PrivacyError

HEAD = 'run_id = "icu"\nlead = "rush"\nsites = ["rush", "nu"]\nnum_passes = 4\ninitial_model = "start.npz"\n'
PRIVACY = '[privacy]\nmode = "local"\nclip = 1\nepsilon = 8\ndelta = 1e-5\n'

Project = Callable[..., Settings]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.chdir(tmp_path)

    def write(more: str, *, charged: int = 0, sigma: float = 2.0) -> Settings:
        (tmp_path / "stitch.toml").write_text(HEAD + more, encoding="utf-8")
        (tmp_path / "config").mkdir(exist_ok=True)
        site = json.dumps({"site_name": "nu", "data_directory": "data"})
        (tmp_path / "config" / "config.json").write_text(site, encoding="utf-8")
        settings = load_settings(tmp_path, {})
        for number in range(charged):
            release = Release("default", "icu-0", number, 0, sigma, 1.0, f"{number:064x}", "2026-01-01")
            journal_of(settings).charge(release, budget=budget_of(settings))
        return settings

    return write


def test_it_sums_the_journal_up_over_all_runs(project: Project) -> None:
    project(PRIVACY + "noise_multiplier = 3.0\n", charged=3)
    result = CliRunner().invoke(app, ["privacy", "show"], catch_exceptions=False)
    lines = result.output.splitlines()
    assert lines[0] == "data set default: 3 releases"
    assert lines[1].startswith("  spent   epsilon 3.")
    assert lines[1].endswith(" of 8 at delta 1e-05 (add_remove)")
    assert lines[2] == "  left    4 of 4 passes of icu, noise_multiplier 3"
    assert lines[3] == "  icu-0: 3 releases"
    assert all(len(line) <= 80 and line.isascii() for line in lines[:-1])


def test_a_plan_that_the_budget_cannot_hold_is_warned_of(project: Project) -> None:
    [check, metrics] = budget(project(PRIVACY + "noise_multiplier = 1.0\n"))
    assert check.state == "warn"
    assert check.finding == "noise_multiplier 1 permits 2 of the 4 passes that are left within epsilon 8"
    assert metrics.todo == "[egress] metrics = [] keeps them here."
    [check] = budget(project(PRIVACY + "[egress]\nmetrics = []\n"))
    assert (check.state, check.finding) == ("ok", "epsilon 0 of 8 spent, noise_multiplier 1.201")
    [check, _] = budget(project(PRIVACY, charged=3, sigma=2.0))
    assert check.finding.startswith("noise_multiplier 1.201 permits 2 of the 4 passes")


def test_a_damaged_journal_is_a_failure_and_a_run_without_privacy_is_none(project: Project) -> None:
    settings = project(PRIVACY, charged=1)
    journal_of(settings).file.write_text("{}\n", encoding="utf-8")
    [check] = budget(settings)
    assert (check.state, check.exit_code) == ("fail", PrivacyError.exit_code)
    assert list(budget(project(""))) == []
    result = CliRunner().invoke(app, ["privacy", "show"])
    assert isinstance(result.exception, ConfigError)
