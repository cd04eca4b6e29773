"""What `doctor` prints: one line a check, the code of the worst."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import typer
from typer.testing import CliRunner, Result

from stitch.cli.checks import Check
from stitch.cli.checkup import examine
from stitch.cli.doctor import doctor
from stitch.clock import SystemClock

Project = Callable[..., Path]


def found(root: Path) -> list[Check]:
    return examine(root, {}, clock=SystemClock())


def run_doctor(*arguments: str) -> Result:
    app = typer.Typer()
    app.command()(doctor)
    return CliRunner().invoke(app, list(arguments))


def named(checks: list[Check], name: str) -> Check:
    return next(check for check in checks if check.name == name)


def test_a_healthy_site_is_told_so_line_by_line(project: Project) -> None:
    project()
    result = run_doctor()
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    assert all(re.match(r"ok    \S", line) for line in lines)
    names = [line[6:].split("  ")[0] for line in lines]
    for name in ("configuration", "data", "hook train", "model", "disk", "place", "names"):
        assert name in names
    assert names[-3:] == ["store global", "store sites/nu", "clock"]
    assert "hook aggregate" not in names


def test_the_lead_is_checked_for_what_it_does_besides(project: Project) -> None:
    project(site="rush")
    names = [line[6:].split("  ")[0] for line in run_doctor().output.splitlines()]
    assert {"hook aggregate", "store sites/nu", "store sites/rush", "store global"} <= set(names)


def test_json_is_a_versioned_contract(project: Project) -> None:
    project()
    document = json.loads(run_doctor("--json").output)
    assert (document["kind"], document["ok"], document["exit_code"]) == ("stitch.doctor/1", True, 0)
    assert {tuple(sorted(check)) for check in document["checks"]} == {("finding", "name", "state", "todo")}


def test_a_broken_configuration_is_the_first_line(project: Project) -> None:
    project("[polcy]\n")
    result = run_doctor()
    assert result.exit_code == 2
    assert result.output.startswith("FAIL  configuration")
    assert "-> The nearest valid key is 'policy'." in result.output


def test_the_worst_failure_gives_the_code(project: Project) -> None:
    root = project()
    (root.parent / "store").rmdir()
    (root / "tables").rmdir()
    result = run_doctor()
    assert result.exit_code == 23
    assert result.output.count("FAIL") == 3
    assert all("-> " in line for line in result.output.splitlines() if line.startswith("FAIL"))


def test_no_store_url_names_the_variables(project: Project) -> None:
    check = named(found(project(env="")), "store")
    assert (check.state, check.exit_code) == ("fail", 2)
    assert "STITCH_STORE_GLOBAL, STITCH_STORE_SITE" in check.finding


def test_a_url_that_no_store_takes_is_said_once(project: Project) -> None:
    checks = [check for check in found(project(env="STITCH_STORE=ftp://host/x\n")) if check.state == "fail"]
    assert len(checks) == 1
    assert checks[0].exit_code == 2
