"""Every template of `clif-stitch init`, rendered and run: hooks in child processes, as in a pass."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from stitch.cli.scaffold import Pace, render_project, run_id_from, write_site_config
from stitch.config.load import load_settings
from stitch.errors import HookFailed
from stitch.hooks import HookResult
from tests.e2e.hook_federation import SITES, HookFederation, make_site_data, rscript

PYTHON_TEMPLATES = ("numpy", "gbm")
WITH_R = pytest.param("r", marks=pytest.mark.r)
ALL = ("numpy", "gbm", WITH_R)


def rendered(tmp_path: Path, template: str) -> Path:
    return render_project(tmp_path / "icu-run", lead="rush", sites=SITES, template=template).root


def federation(tmp_path: Path, template: str, **hyper: object) -> HookFederation:
    if template == "r":
        rscript()
    return HookFederation(rendered(tmp_path, template), tmp_path / "work", hyper=hyper)


Row = dict[str, HookResult]
OnePass = Callable[[str], tuple[HookFederation, Row]]


@pytest.fixture(scope="module")
def _ran_once(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[Path, Row]]:
    """Runs a template's pass 0 and pass 1 when first asked for, once for all tests of this worker."""
    done: dict[str, tuple[Path, Row]] = {}

    def ran(template: str) -> tuple[Path, Row]:
        if template not in done:
            place = tmp_path_factory.mktemp(template)
            done[template] = (place, federation(place, template).run(1)[0])
        return done[template]

    return ran


@pytest.fixture
def one_pass(tmp_path: Path, _ran_once: Callable[[str], tuple[Path, Row]]) -> OnePass:
    """A federation of the given template after pass 1, a copy for this test alone."""

    def copied(template: str) -> tuple[HookFederation, Row]:
        place, row = _ran_once(template)
        shutil.copytree(place, tmp_path, dirs_exist_ok=True)
        shutil.rmtree(tmp_path / "work" / "work")
        return HookFederation(tmp_path / "icu-run", tmp_path / "work"), row

    return copied


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize(
    ("template", "hyper"),
    [
        ("numpy", {}),
        ("gbm", {"booster": "lightgbm"}),
        ("gbm", {"booster": "xgboost"}),
        pytest.param("r", {}, marks=pytest.mark.r),
    ],
)
def test_the_federation_learns_pass_by_pass(tmp_path: Path, template: str, hyper: dict[str, object]) -> None:
    """Loss falls, and the smallest site ends above what it could do alone."""
    fed = federation(tmp_path, template, **hyper)
    rows = fed.run(2)
    losses = [sum(row[site].metrics["loss"] * row[site].n_samples for site in SITES) for row in rows]
    assert losses == sorted(losses, reverse=True)
    smallest = rows[-1]["uchicago"].metrics
    assert fed.evaluate(2, "uchicago").metrics["auroc"] > smallest["local_auroc"]
    assert fed.evaluate(2, "rush").metrics["auroc"] > rows[0]["rush"].metrics["auroc"]
    # The numbers a pass reports about its base are those of the global before it.
    assert smallest["base_auroc"] == pytest.approx(fed.evaluate(1, "uchicago").metrics["auroc"], abs=1e-12)


@pytest.mark.parametrize("template", ALL)
def test_the_same_inputs_give_the_same_bytes(tmp_path: Path, one_pass: OnePass, template: str) -> None:
    """What resuming after a kill and recomputing a round rest on."""
    fed, _ = one_pass(template)
    again = tmp_path / "again"
    fed.train(1, "nu", out=again / "train" / fed.model(1).name)
    fed.aggregate(1, out=again / "aggregate" / fed.model(1).name)
    assert digest(again / "train" / fed.model(1).name) == digest(fed.model(1, "nu"))
    assert digest(again / "aggregate" / fed.model(1).name) == digest(fed.model(1))


@pytest.mark.parametrize("template", ALL)
def test_only_metrics_of_the_allow_list_are_returned(one_pass: OnePass, template: str) -> None:
    fed, row = one_pass(template)
    allowed = set(fed.settings.egress.metrics or ())
    assert allowed == {"auroc", "base_auroc", "local_auroc", "loss"}
    assert {name for result in row.values() for name in result.metrics} == allowed
    assert all(result.n_samples >= fed.settings.egress.min_n for result in row.values())


@pytest.mark.parametrize("template", ALL)
def test_a_model_for_other_features_is_refused(one_pass: OnePass, template: str) -> None:
    """A site whose columns are in another order must not train on the others' weights."""
    fed, _ = one_pass(template)
    schema = fed.project / "shared" / "feature_schema.json"
    lines = schema.read_text(encoding="utf-8").split("\n")
    first = next(number for number, line in enumerate(lines) if '"name"' in line)
    lines[first], lines[first + 1] = lines[first + 1], lines[first]
    schema.write_text("\n".join(lines), encoding="utf-8")
    make_site_data(fed.project, "nu", index=1, of=3, out=fed.data("nu"))
    with pytest.raises(HookFailed) as refused:
        fed.train(2, "nu")
    assert "other features" in refused.value.detail


@pytest.mark.parametrize("template", ALL)
def test_a_site_without_rows_weighs_nothing(tmp_path: Path, one_pass: OnePass, template: str) -> None:
    fed, _ = one_pass(template)
    expected = digest(fed.model(1))
    cohort = fed.data("uchicago") / "cohort.csv"
    cohort.write_text(cohort.read_text(encoding="utf-8").split("\n")[0] + "\n", encoding="utf-8")
    assert fed.train(1, "uchicago").n_samples == 0
    fed.aggregate(1)
    assert digest(fed.model(1)) != expected
    without = tmp_path / "without" / fed.model(1).name
    shutil.rmtree(fed.model(1, "uchicago").parents[1])
    fed.aggregate(1, out=without)
    assert digest(without) == digest(fed.model(1))


@pytest.mark.parametrize("template", ALL)
def test_no_samples_anywhere_is_an_error(one_pass: OnePass, template: str) -> None:
    fed, _ = one_pass(template)
    for site in SITES:
        seal_path = fed.model(1, site).with_name("metrics.json")
        seal_path.write_text(json.dumps({"n_samples": 0, "metrics": {}}), encoding="utf-8")
    with pytest.raises(HookFailed) as refused:
        fed.aggregate(1)
    assert (
        "not a single row" in refused.value.detail
        or "no site trained on a single row" in refused.value.detail
    )


def test_the_average_is_weighted_by_rows(one_pass: OnePass) -> None:
    fed, rows = one_pass("numpy")
    total = sum(result.n_samples for result in rows.values())
    for name in ("weights", "bias"):
        expected = sum(np.load(fed.model(1, site))[name] * (rows[site].n_samples / total) for site in SITES)
        np.testing.assert_allclose(np.load(fed.model(1))[name], expected, rtol=1e-12)


def weights(path: Path) -> np.ndarray:
    """The coefficients of a linear template's model."""
    if path.suffix == ".npz":
        with np.load(path) as arrays:
            return np.append(arrays["weights"], arrays["bias"])
    lines = path.read_text(encoding="utf-8").split("\n")[1:-1]
    return np.array([float(line.rpartition(",")[2]) for line in lines])


@pytest.mark.parametrize("template", ALL)
def test_a_stale_pass_of_a_buffered_round_counts_by_its_change_and_its_weight(
    one_pass: OnePass, template: str
) -> None:
    """Nu's pass from global 0 comes when global 2 is made, beside a fresh one of rush."""
    fed, rows = one_pass(template)
    fresh = fed.train(2, "rush")
    late = fed.model(2, "nu").parents[1] / "pass_001"
    shutil.copytree(fed.model(1, "nu").parent, late)
    said = {"site": "nu", "base_pass": 0, "staleness": 1, "weight": 0.5}
    (late / "round.json").write_text(json.dumps(said), encoding="utf-8")
    laid = fed.scratch / "bases" / "002" / "pass_000" / fed.model(0).name
    laid.parent.mkdir(parents=True)
    shutil.copyfile(fed.model(0), laid)
    fed.aggregate(2)
    share = rows["nu"].n_samples / (rows["nu"].n_samples + fresh.n_samples)
    if template == "gbm":
        members = json.loads(fed.model(2).read_text(encoding="utf-8"))["members"]
        assert len(members) == 3 + 2
        assert [one["weight"] for one in members[-2:]] == pytest.approx([0.5 * share, 1 - share])
        return
    models = (fed.model(2, "rush"), fed.model(1), late / fed.model(1).name, fed.model(0))
    rush, new, nu, old = (weights(path) for path in models)
    expected = new + (1 - share) * (rush - new) + share * 0.5 * (nu - old)
    np.testing.assert_allclose(weights(fed.model(2)), expected, rtol=1e-9, atol=1e-12)


def test_a_model_that_is_not_finite_is_refused_by_name(one_pass: OnePass) -> None:
    fed, _ = one_pass("numpy")
    with np.load(fed.model(1, "nu")) as arrays:
        model = dict(arrays)
    model["weights"][3] = np.nan
    np.savez(fed.model(1, "nu"), **model)
    with pytest.raises(HookFailed) as refused:
        fed.aggregate(1)
    assert "site nu" in refused.value.detail


@pytest.mark.parametrize("booster", ["lightgbm", "xgboost"])
def test_an_ensemble_takes_one_pass(tmp_path: Path, booster: str) -> None:
    fed = federation(tmp_path, "gbm", booster=booster, mode="ensemble")
    assert len(fed.run(5)) == 1
    model = json.loads(fed.model(1).read_text(encoding="utf-8"))
    assert sum(member["weight"] for member in model["members"]) == pytest.approx(1.0)
    for site in ("nu", "uchicago"):
        alone = fed.train(1, site, out=tmp_path / "alone" / "model.json").metrics["local_auroc"]
        assert fed.evaluate(1, site).metrics["auroc"] > alone


def test_trees_carry_no_extreme_value_of_a_site(one_pass: OnePass) -> None:
    """LightGBM writes every feature's smallest and largest value into its text: one patient's each."""
    fed, _ = one_pass("gbm")
    trees = json.loads(fed.model(1, "nu").read_text(encoding="utf-8"))["members"][0]["trees"]
    infos = next(line for line in trees.split("\n") if line.startswith("feature_infos="))
    assert set(infos.removeprefix("feature_infos=").split(" ")) == {"none"}


def test_boosters_cannot_be_mixed(one_pass: OnePass) -> None:
    fed, _ = one_pass("gbm")
    other = HookFederation(fed.project, fed.scratch, hyper={"booster": "xgboost"})
    with pytest.raises(HookFailed) as refused:
        other.train(2, "nu")
    assert "xgboost" in refused.value.detail


def test_a_leaf_may_not_describe_fewer_than_ten_patients(tmp_path: Path) -> None:
    fed = federation(tmp_path, "gbm", min_rows_in_leaf=5)
    fed.make_data()
    with pytest.raises(HookFailed) as refused:
        fed.train(0, "rush")
    assert "too few patients" in refused.value.detail


@pytest.mark.parametrize("template", ALL)
def test_pass_0_holds_no_site_but_the_leads_preprocessing(tmp_path: Path, template: str) -> None:
    fed = federation(tmp_path, template)
    fed.make_data()
    result = fed.train(0, "rush")
    assert result.n_samples > 4000
    assert fed.evaluate(0, "nu").metrics["auroc"] == 0.5


def test_the_local_baseline_is_fitted_once(one_pass: OnePass) -> None:
    fed, _ = one_pass("numpy")
    memory = fed.scratch / "state" / "nu" / "local_baseline.json"
    memory.write_text('{"local_auroc": 0.123}', encoding="utf-8")
    assert fed.train(1, "nu").metrics["local_auroc"] == 0.123


def test_fake_hospitals_are_made_reproducibly_and_differ(tmp_path: Path) -> None:
    project = rendered(tmp_path, "numpy")
    tables = {}
    for index in range(5):
        said = make_site_data(project, f"site{index}", index=index, of=5, out=tmp_path / f"d{index}")
        make_site_data(project, "other", index=index, of=9, out=tmp_path / f"again{index}")
        assert digest(tmp_path / f"d{index}" / "cohort.csv") == digest(
            tmp_path / f"again{index}" / "cohort.csv"
        )
        assert said.isascii()
        tables[index] = np.genfromtxt(tmp_path / f"d{index}" / "cohort.csv", delimiter=",", names=True)
    assert [len(tables[index]) for index in range(5)] == [6000, 2500, 900, 630, 440]
    schema = json.loads((project / "shared" / "feature_schema.json").read_text(encoding="utf-8"))
    names = [feature["name"] for feature in schema["features"]]
    assert tables[0].dtype.names == ("split", *names, schema["label"])
    assert len(names) == 52
    for index, rate in ((0, 0.09), (1, 0.19), (2, 0.12)):
        assert np.mean(tables[index][schema["label"]]) == pytest.approx(rate, abs=0.02)
        holes = np.mean([np.isnan(tables[index][name]).mean() for name in names])
        assert holes == pytest.approx(0.10, abs=0.01)
    for feature in schema["features"]:
        values = tables[0][feature["name"]]
        assert feature["low"] <= np.nanmin(values) <= np.nanmax(values) <= feature["high"]


@pytest.mark.parametrize("template", ["numpy", "gbm", "r"])
def test_rendered_settings_are_read_without_a_word(tmp_path: Path, template: str) -> None:
    project = render_project(
        tmp_path / "My ICU_Project!",
        lead="Rush",
        sites=["rush", "NU"],
        template=template,
        site="NU",
        pace=Pace(num_passes=4, poll_seconds=0.5, heartbeat_minutes=0.1, root_seed=7),
    )
    settings = load_settings(project.root, {})
    assert (settings.run_id, settings.lead, settings.sites) == ("my-icu-project", "rush", ("rush", "nu"))
    assert (settings.site, settings.num_passes, settings.root_seed) == ("nu", 4, 7)
    assert (settings.poll_seconds, settings.heartbeat_minutes) == (0.5, 0.1)
    assert settings.data_dir == project.root / "data"
    assert settings.initial_model is None


def test_a_hook_hash_does_not_depend_on_line_endings_of_the_checkout(tmp_path: Path) -> None:
    assert "* text=auto eol=lf" in (rendered(tmp_path, "numpy") / ".gitattributes").read_text(
        encoding="utf-8"
    )


@pytest.mark.parametrize("template", ["numpy", "gbm", "r"])
def test_git_keeps_what_is_private_out(tmp_path: Path, template: str) -> None:
    project = rendered(tmp_path, template)
    write_site_config(project, site="nu", data_directory="data")
    private = [
        ".env",
        "data/cohort.csv",
        "output/intermediate_phi/cohort.csv",
        "output/final_no_phi/pass_001/model.npz",
        f"stitch_store/{run_id_from(project)}/global/DONE.json",
        "runs/x/run.log",
    ]
    for name in private:
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text("private", encoding="utf-8")
    env = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    subprocess.run(["git", "init", "-q"], cwd=project, check=True, env=env)
    subprocess.run(["git", "add", "-A"], cwd=project, check=True, env=env)
    kept = subprocess.run(
        ["git", "ls-files"], cwd=project, check=True, env=env, capture_output=True, text=True
    )
    tracked = set(kept.stdout.split("\n"))
    assert not tracked & {*private, "config/config.json"}
    assert {"output/final_no_phi/.gitkeep", "output/intermediate_phi/README.md", "stitch.toml"} <= tracked
