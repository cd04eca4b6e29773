"""The examples: each is a project that init's template and a few files make, and each one runs."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import polars as pl
import pytest

from stitch.config.load import load_settings
from stitch.hooks import check_spec
from tests.e2e.hook_federation import SITES
from tests.e2e.result_table import differing, shown

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
NAMES = sorted(path.parent.name for path in EXAMPLES.glob("*/example.toml"))
VARIANTS = [
    (name, variant)
    for name in NAMES
    for variant in tomllib.loads((EXAMPLES / name / "example.toml").read_text(encoding="utf-8"))["variants"]
]


@pytest.fixture(scope="module")
def runner() -> ModuleType:
    """examples/run.py as a module."""
    spec = importlib.util.spec_from_file_location("examples_run", EXAMPLES / "run.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_folder_is_an_example_with_its_results() -> None:
    folders = sorted(path.name for path in EXAMPLES.iterdir() if path.is_dir() and path.name != "__pycache__")
    names = ["asynchronous", "clif-demo", "flower-client", "gbm", "icu-numpy", "private", "r-glm"]
    assert folders == NAMES == names
    for name in NAMES:
        readme = (EXAMPLES / name / "README.md").read_text(encoding="utf-8")
        assert f"examples/run.py {name}" in readme
        assert re.search(r"(?m)^\|.*\d\.\d{3}.*\|$", readme), f"{name} shows no result table"
    for name, variant in VARIANTS:
        assert variant in (EXAMPLES / name / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(("name", "variant"), VARIANTS)
def test_its_table_shows_what_came_out_at_every_site_alone_and_together(name: str, variant: str) -> None:
    cells = shown((EXAMPLES / name / "README.md").read_text(encoding="utf-8"), variant)
    said = {(cell.site, cell.what) for cell in cells}
    assert {(site, what) for site in SITES for what in ("alone", "global")} <= said
    assert all(0.5 < cell.value <= 1 for cell in cells if cell.what in ("alone", "global"))


@pytest.mark.parametrize(("name", "variant"), VARIANTS)
def test_an_example_is_a_project_whose_settings_and_hooks_are_found(
    runner: ModuleType, tmp_path: Path, name: str, variant: str
) -> None:
    example = tomllib.loads((EXAMPLES / name / "example.toml").read_text(encoding="utf-8"))
    wanted = {**example.get("settings", {}), **example["variants"][variant]}
    project = runner.make_project(name, example["variants"][variant], tmp_path)
    settings = load_settings(project, {}, site="nu")
    assert (settings.run_id, settings.sites, settings.num_passes) == (name, SITES, wanted.pop("num_passes"))
    hooks = {key: wanted.pop(key) for key in ("train", "evaluate") if key in wanted}
    assert all(getattr(settings.hooks, hook) == spec for hook, spec in hooks.items())
    if "policy" in example:
        assert settings.policy.require == example["policy"]["require"]
        assert settings.policy.buffer_size == example["policy"]["buffer_size"]
    if "epsilon" in wanted:
        assert settings.privacy.epsilon == wanted.pop("epsilon")
    assert {key: settings.hyper[key] for key in wanted} == wanted
    if settings.hooks.model_ext != "csv":  # R's own program may be absent here
        check_spec(project, settings.hooks.train, hook="train")


def test_a_setting_that_stands_twice_is_not_guessed(runner: ModuleType) -> None:
    with pytest.raises(SystemExit, match="several tables"):
        runner.with_setting("[a]\nx = 1\n[config]\nx = 2\n", "x", 3)
    assert (
        runner.with_setting("a = 1\n[config]  # why\nx = 2\n", "y", "z")
        == 'a = 1\n[config]  # why\ny = "z"\nx = 2\n'
    )


@pytest.mark.examples
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("name", "variant"), VARIANTS)
def test_an_example_comes_to_the_numbers_of_its_table(tmp_path: Path, name: str, variant: str) -> None:
    command = [sys.executable, str(EXAMPLES / "run.py"), name, variant, "--dir", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    store = tmp_path / name / variant / "sites" / "store" / name
    end = json.loads((store / "global" / "DONE.json").read_text(encoding="utf-8"))
    example = tomllib.loads((EXAMPLES / name / "example.toml").read_text(encoding="utf-8"))
    passes = example["variants"][variant]
    assert end["final_pass"] == (1 if variant.endswith("ensemble") else passes["num_passes"])
    table = shown((EXAMPLES / name / "README.md").read_text(encoding="utf-8"), variant)
    assert (
        differing(table, store.parents[1] / SITES[0], noisy=example.get("noisy", {}).get(variant, 0.0)) == []
    )
    if name == "asynchronous":
        seals = sorted((store / "global").glob("pass_*/metrics.json"))
        behind = [
            one["staleness"] for seal in seals for one in json.loads(seal.read_bytes())["round"]["inputs"]
        ]
        assert max(behind) > 0, "the slow site was never behind"
    if name == "clif-demo":
        _nothing_but_models_and_summaries_left(store)


def _nothing_but_models_and_summaries_left(store: Path) -> None:
    """Patients' tables were read; none of their ids may be in what was shared."""
    tables = store.parents[1] / "rush" / "data"
    ids = set(pl.read_parquet(tables / "clif_hospitalization.parquet")["hospitalization_id"])
    assert len(ids) > 50
    for path in store.rglob("*"):
        if path.is_file():
            assert path.suffix in {".json", ".npz"} or path.name.startswith("."), (
                path.name
            )  # the folder's locks
            content = path.read_bytes()
            assert not any(one.encode() in content for one in ids), path.name
