"""`doctor` on an aggregate hook that would take a stale pass of a buffered round for a fresh one."""

from __future__ import annotations

from pathlib import Path

import pytest

from stitch.cli.checks_rounds import stale_passes
from stitch.config import load_settings
from tests.cli.doctor.conftest import Project

BUFFERED = '[policy]\nrequire = "buffered"\nbuffer_size = 2\n'
TEMPLATES = Path(__file__).parents[3] / "templates"


def found(root: Path) -> list[str]:
    return [
        f"{one.name} {one.state}: {one.finding} -> {one.todo}"
        for one in stale_passes(load_settings(root, {}))
    ]


def test_a_mean_of_models_is_warned_of_at_the_lead_of_a_buffered_run(project: Project) -> None:
    (said,) = found(project(BUFFERED, site="rush"))
    assert said.startswith(
        "hook aggregate warn: code/aggregate.py:aggregate reads neither bases_dir nor round.json"
    )
    assert "docs/asynchronous.md" in said
    assert found(project(BUFFERED, site="nu")) == []
    assert found(project(site="rush")) == []


@pytest.mark.parametrize("word", ["bases_dir", "round.json"])
def test_a_hook_that_reads_what_says_so_is_not(project: Project, word: str) -> None:
    root = project(BUFFERED, site="rush")
    (root / "code/means.py").write_text(f"# beside the hook's file: {word}\n", encoding="utf-8")
    assert found(root) == []


@pytest.mark.parametrize(
    "hooks",
    [
        'strategy = "stitch.learning:FedAvg"',
        'aggregate = ["some-program", "--fast"]',  # nobody can look into it
        'aggregate = "code/not_there.py:aggregate"',  # said by another check
    ],
)
def test_nothing_is_said_of_what_is_right_or_cannot_be_known(project: Project, hooks: str) -> None:
    assert found(project(f"{BUFFERED}[hooks]\n{hooks}\n", site="rush")) == []


def test_an_r_script_is_looked_into_and_the_templates_are_right(project: Project) -> None:
    root = project(f'{BUFFERED}[hooks]\naggregate = ["Rscript", "r/mean.R"]\n', site="rush")
    (root / "r").mkdir()
    script = root / "r/mean.R"
    script.write_text('folder <- Sys.getenv("STITCH_SITE_DIR")\n', encoding="utf-8")
    assert len(found(root)) == 1
    script.write_bytes((TEMPLATES / "r/code/aggregate.R").read_bytes())
    assert found(root) == []
    for template in ("numpy", "gbm"):
        hook = root / "code" / "aggregate.py"
        hook.write_bytes((TEMPLATES / template / "code/aggregate.py").read_bytes())
        assert found(project(BUFFERED, site="rush")) == []
