"""docs/hooks.md says what is so: its examples run, its table is what the runner checks."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from stitch.hooks import HookName
from stitch.hooks.environment import command_variables
from stitch.hooks.runner import OPTIONAL, REQUIRED
from stitch.hooks.spec import risky_extension
from tests.unit.hooks.conftest import Project

DOC = (Path(__file__).parents[3] / "docs" / "hooks.md").read_text(encoding="utf-8")


def example(language: str, number: int = 0) -> str:
    found = re.findall(rf"```{language}\n(.*?)```", DOC, flags=re.DOTALL)
    return str(found[number])


def test_the_python_examples_train_and_aggregate(project: Project) -> None:
    project.write("code/train.py", example("python"))
    project.write("code/aggregate.py", example("python", 1))
    project.write("data/rows.csv", "1,2\n3,4\n5,9\n")
    trained = project.run(project.call(optional={"config": {"learning_rate": 1.0}}))
    assert (trained.n_samples, trained.metrics) == (3, {"shift": 5.0})
    folder = project.root / "sites" / "rush" / "pass_001"
    folder.mkdir(parents=True)
    project.out_path.rename(folder / "model.npz")
    (folder / "metrics.json").write_text(json.dumps({"n_samples": 3}), encoding="utf-8")
    call = project.call("code/aggregate.py:aggregate", hook="aggregate", default_n_samples=3)
    result = project.run(call)
    assert (result.n_samples, result.metrics) == (3, {"sites": 1})


def test_the_example_of_leaves_yields_what_is_counted(project: Project) -> None:
    project.write("code/leaves.py", example("python", 2))
    project.write("data/rows.csv", "1,2\n3,4\n5,9\n")
    result = project.run(project.call("code/leaves.py:leaves", hook="leaves"))
    assert result.n_samples == 3
    assert project.out_path.stat().st_size == 3 * 32


@pytest.mark.r
def test_the_example_in_r_trains(project: Project) -> None:
    project.write("code/train.R", example("r"))
    rows = [f"{n % 3 == 0:d},{40 + 3 * n % 37},{1 + n % 5}" for n in range(40)]
    project.write("data/rows.csv", "death,age,lactate\n" + "\n".join(rows) + "\n")
    result = project.run(project.call(("Rscript", "code/train.R")))
    assert result.n_samples == 40
    assert result.metrics["deviance"] > 0


def test_the_table_of_arguments_is_what_the_runner_checks() -> None:
    rows = re.findall(r"^\| `(\w+)` \|(.*?)\|(.*?)\|(.*?)\|", DOC, flags=re.MULTILINE)
    hooks: tuple[HookName, ...] = ("train", "aggregate", "evaluate")
    table = {
        name: dict(zip(hooks, map(str.strip, cells), strict=True)) for name, *cells in rows if "_" in name
    }
    table |= {"config": dict.fromkeys(hooks, "optional")}
    for hook in hooks:
        required = {name for name, cells in table.items() if cells[hook] == "required"}
        assert required == set(REQUIRED[hook])
    optional = {name for name, cells in table.items() if "optional" in cells.values()}
    assert optional == set(OPTIONAL)


def test_the_variables_it_names_are_set(project: Project) -> None:
    call = project.call(optional={"config": {}, "pass_id": 1})
    project.work_dir.mkdir()
    told = {*command_variables(call, metrics_path=project.work_dir / "metrics.json")}
    assert set(re.findall(r"STITCH_[A-Z_]+[A-Z]", DOC)) <= told


def test_the_formats_it_warns_of_are_those_that_are_warned_of() -> None:
    rows = re.findall(
        r"^\| ([`. A-Za-z]+) \| ([^|]+) \|$", DOC[DOC.index("| instead of |") :], flags=re.MULTILINE
    )
    unsafe = [ext for left, _ in rows for ext in re.findall(r"`\.(\w+)`", left)]
    safe = [ext for _, right in rows for ext in re.findall(r"`\.(\w+)`", right)]
    assert len(unsafe) > 6
    assert all(risky_extension(ext) for ext in unsafe)
    assert not any(risky_extension(ext) for ext in safe)
