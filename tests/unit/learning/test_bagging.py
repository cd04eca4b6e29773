"""Bagged trees against what LightGBM and XGBoost themselves predict."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import pytest
import xgboost
from numpy.typing import NDArray

from stitch.errors import BadModel
from stitch.learning import BoosterBagging, aggregate
from stitch.learning.check import admit
from tests.unit.learning.rounds import note_of

SITES = {"nu": 200, "mu": 500, "xi": 90}
COLUMNS = 4
_X = np.random.default_rng(5).normal(size=(100, COLUMNS))


class LightGBM:
    """Grows and scores with LightGBM."""

    ext = "txt"

    def __init__(self, classes: int) -> None:
        goal = {"objective": "binary"} if classes == 2 else {"objective": "multiclass", "num_class": classes}
        self.classes = classes
        self.parameters: dict[str, Any] = {
            **goal, "num_leaves": 4, "min_data_in_leaf": 10, "deterministic": True, "num_threads": 1,
            "verbosity": -1, "seed": 0, "force_row_wise": True,
        }  # fmt: skip

    def grow(self, seed: int, count: int, *, out: Path, base: Path | None = None) -> None:
        x, y = _rows(seed, count, self.classes)
        rows = lightgbm.Dataset(x, label=y)
        start = str(base) if base else None
        lightgbm.train(self.parameters, rows, num_boost_round=3, init_model=start).save_model(str(out))

    def scores(self, path: Path) -> NDArray[np.float64]:
        booster = lightgbm.Booster(model_file=str(path))
        return np.asarray(booster.predict(_X, raw_score=True, num_threads=1), np.float64)


class XGBoost:
    """The same with XGBoost."""

    ext = "json"

    def __init__(self, classes: int) -> None:
        goal = {"objective": "binary:logistic"}
        if classes > 2:
            goal = {"objective": "multi:softprob", "num_class": str(classes)}
        self.classes = classes
        self.parameters: dict[str, Any] = {**goal, "max_depth": 2, "nthread": 1, "seed": 0}

    def grow(self, seed: int, count: int, *, out: Path, base: Path | None = None) -> None:
        x, y = _rows(seed, count, self.classes)
        rows = xgboost.DMatrix(x, label=y, nthread=1)
        start = str(base) if base else None
        xgboost.train(self.parameters, rows, num_boost_round=3, xgb_model=start).save_model(str(out))

    def scores(self, path: Path) -> NDArray[np.float64]:
        booster = xgboost.Booster(params={"nthread": 1})
        booster.load_model(str(path))
        rows = xgboost.DMatrix(_X, nthread=1)
        return np.asarray(booster.predict(rows, output_margin=True), np.float64)


def _rows(seed: int, count: int, classes: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(count, COLUMNS))
    edges = [0.0] if classes == 2 else [-0.5, 0.5]
    return x, np.digitize(x[:, 0] + rng.normal(size=count), edges)


Library = LightGBM | XGBoost
LIBRARIES: list[Library] = [LightGBM(2), LightGBM(3), XGBoost(2), XGBoost(3)]


def _named(library: Library) -> str:
    return f"{type(library).__name__}-{library.classes}"


class Round:
    """One round's folders."""

    def __init__(self, root: Path, library: Library, base: Path) -> None:
        self.root, self.library, self.base = root, library, base
        self.out = root / f"new.{library.ext}"

    def add(self, site: str, *, seed: int, base: Path | None = None, **said: Any) -> Path:
        folder = self.root / "sites" / site / "pass_003"
        folder.mkdir(parents=True)
        model = folder / f"model.{self.library.ext}"
        self.library.grow(seed, SITES[site], out=model, base=base or self.base)
        seal = json.dumps({"n_samples": SITES[site], "metrics": {}})
        (folder / "metrics.json").write_text(seal, encoding="utf-8")
        (folder / "round.json").write_text(note_of(site, **said), encoding="utf-8")
        return model

    def make(self) -> dict[str, float]:
        return aggregate(
            site_dir=self.root / "sites",
            out_path=self.out,
            global_path=self.base,
            bases_dir=self.root / "bases",
            strategy=BoosterBagging(),
        )


@pytest.mark.parametrize("library", LIBRARIES, ids=_named)
def test_the_global_scores_the_mean_of_the_sites_in_each_of_two_rounds(
    tmp_path: Path, library: Library
) -> None:
    base = tmp_path / f"global.{library.ext}"
    library.grow(0, 300, out=base)
    for number in (1, 2):
        one = Round(tmp_path / str(number), library, base)
        models = {site: one.add(site, seed=10 * number + n) for n, site in enumerate(SITES)}
        answer = one.make()
        assert answer["n_samples"] == 790
        assert "excluded" not in answer
        wanted = sum(SITES[site] * library.scores(path) for site, path in models.items()) / 790
        assert np.abs(library.scores(one.out) - wanted).max() < 1e-6
        assert np.abs(library.scores(one.out) - library.scores(base)).max() > 0.01
        base = one.out


@pytest.mark.parametrize("library", [LIBRARIES[0], LIBRARIES[2]], ids=_named)
def test_stale_trees_are_added_to_the_newest_global(tmp_path: Path, library: Library) -> None:
    older = tmp_path / "bases" / "pass_001" / f"model.{library.ext}"
    older.parent.mkdir(parents=True)
    library.grow(0, 300, out=older)
    newest = tmp_path / f"global.{library.ext}"
    library.grow(1, 300, out=newest, base=older)
    one = Round(tmp_path, library, newest)
    stale = one.add("nu", seed=2, base=older, staleness=1, weight=0.5)
    one.make()
    change = library.scores(stale) - library.scores(older)
    assert np.abs(library.scores(one.out) - library.scores(newest) - 0.5 * change).max() < 1e-6


@pytest.mark.parametrize("library", [LIBRARIES[0], LIBRARIES[2]], ids=_named)
def test_the_bytes_do_not_depend_on_the_order_of_arrival(tmp_path: Path, library: Library) -> None:
    base, made = tmp_path / f"global.{library.ext}", set()
    library.grow(0, 300, out=base)
    for number, order in enumerate([list(SITES), list(reversed(SITES))]):
        one = Round(tmp_path / str(number), library, base)
        for site in order:
            one.add(site, seed=SITES[site])
        one.make()
        made.add(one.out.read_bytes())
    assert len(made) == 1


def test_a_sites_extreme_values_are_not_carried_on(tmp_path: Path) -> None:
    library = LIBRARIES[0]
    base = tmp_path / "global.txt"
    library.grow(0, 300, out=base)
    one = Round(tmp_path, library, base)
    own = one.add("nu", seed=1).read_text(encoding="utf-8")
    one.make()
    ranges = [line for line in own.splitlines() if line.startswith("feature_infos=")]
    new = one.out.read_text(encoding="utf-8")
    assert ranges[0] not in new
    assert [line for line in base.read_text(encoding="utf-8").splitlines() if line in new and "infos" in line]


def _spoiled(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    at = text.rindex(old)
    path.write_text(text[:at] + new + text[at + len(old) :], encoding="utf-8")


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("leaf_value=", "leaf_value=nan ", "not finite"),
        ("objective=binary", "objective=regression", "objective, features or start"),
        ("feature_names=Column_0", "feature_names=age", "objective, features or start"),
        ("Tree=0\nnum_leaves=4", "Tree=0\nnum_leaves=5", "does not go on from the trees"),
        ("end of trees", "end", "cannot be used"),
        ("tree\nversion", "{\nversion", "cannot be used"),
    ],
)
def test_a_booster_that_does_not_belong_is_left_out_with_the_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], old: str, new: str, reason: str
) -> None:
    library, base = LIBRARIES[0], tmp_path / "global.txt"
    library.grow(0, 300, out=base)
    one = Round(tmp_path, library, base)
    one.add("nu", seed=1)
    bad = one.add("xi", seed=2)
    _spoiled(bad, old, new)
    assert one.make()["n_samples"] == SITES["nu"]
    assert "left out: xi: " in (told := capsys.readouterr().err)
    assert reason in told
    admit(model_path=bad, base_path=base, reason_path=tmp_path / "reason.txt")
    assert reason in (tmp_path / "reason.txt").read_text(encoding="utf-8")


def test_a_global_that_is_no_booster_blames_no_site(tmp_path: Path) -> None:
    base = tmp_path / "global.json"
    LIBRARIES[2].grow(0, 300, out=base)
    one = Round(tmp_path, LIBRARIES[2], base)
    one.add("nu", seed=1)
    base.write_text('{"learner": {}}', encoding="utf-8")
    with pytest.raises(BadModel):
        one.make()
