"""A client's methods as hooks: names behind lists, what is asked, what is kept of the answer."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from stitch.learning import FedAvg, NumPyClient, read_model, write_model
from stitch.learning.bridge import _evaluated, evaluate, train
from stitch.learning.client import build_client


def f32(values: Any) -> Any:
    return np.array(values, np.float32)


class Adds(NumPyClient):
    """Adds the rows' mean to whatever it gets."""

    def __init__(self, data_dir: Path, site: str) -> None:
        self.rows = np.loadtxt(data_dir / "rows.txt")
        self.site = site
        self.asked: list[Mapping[str, Any]] = []

    def get_parameters(self, config: Mapping[str, Any] | None = None) -> list[Any]:
        return [np.zeros(2, np.float32), np.ones((1, 2), np.float32)]

    def fit(self, parameters: list[Any], config: Mapping[str, Any]) -> Any:
        self.asked.append(config)
        step = np.float32(self.rows.mean() * config.get("scale", 1.0))
        metrics = {"loss": 0.5, "rows": np.int64(3), "site": self.site, "ok": True, "bad": float("nan")}
        return [array + step for array in parameters], len(self.rows), metrics

    def evaluate(self, parameters: list[Any], config: Mapping[str, Any]) -> Any:
        return float(parameters[0].sum()), np.int64(4), {"auroc": np.float32(0.75)}


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    (tmp_path / "rows.txt").write_text("1 2 3\n", encoding="utf-8")
    return tmp_path


def fit(folder: Path, made: Any, base: Mapping[str, Any] | None, **more: Any) -> dict[str, float]:
    """One pass of the train hook; the model is `folder/out.npz`."""
    if base is not None:
        write_model(folder / "global.npz", base)
    given: dict[str, Any] = {"config": {"site": {"ward": "b"}}, "pass_id": 3, "site_id": "nu"} | more
    global_path = None if base is None else folder / "global.npz"
    out = folder / "out.npz"
    return train(global_path=global_path, out_path=out, data_dir=folder, client_class=made, **given)


def test_the_first_model_is_the_clients_and_has_names_in_its_order(data_dir: Path) -> None:
    assert fit(data_dir, Adds, None) == {"n_samples": 0}
    made = read_model(data_dir / "out.npz")
    assert list(made) == ["arr_0000", "arr_0001"]
    assert made["arr_0001"].shape == (1, 2)
    assert made["arr_0001"].dtype == np.float32


def test_a_pass_keeps_names_order_and_dtypes_of_the_global(data_dir: Path) -> None:
    base = {"w": f32([1, 2]), "a": f32([[5]])}
    answer = fit(data_dir, Adds, base, config={"scale": 2.0, "site": {}})
    made = read_model(data_dir / "out.npz")
    assert list(made) == ["w", "a"]
    assert made["w"].tolist() == [5.0, 6.0]
    assert made["a"].tolist() == [[9.0]]
    assert {array.dtype for array in made.values()} == {np.dtype(np.float32)}
    assert answer == {"n_samples": 3, "loss": 0.5, "rows": 3}


def test_metrics_that_are_no_numbers_stay_with_a_note(
    data_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fit(data_dir, Adds, {"w": f32([1])})
    said = capsys.readouterr().out
    assert "note: the metric 'site' is left out: it is str, no number" in said
    assert "note: the metric 'ok' is left out: it is bool, no number" in said
    assert "note: the metric 'bad' is left out: it is not finite" in said


def test_fit_is_told_the_pass_and_what_all_sites_have_alike(data_dir: Path) -> None:
    clients: list[Adds] = []

    def client_fn(data_dir: Path, config: dict[str, Any], site: str) -> Adds:
        assert config["site"] == {"ward": "b"}
        clients.append(Adds(data_dir, site))
        return clients[-1]

    fit(data_dir, client_fn, {"w": f32([1])}, config={"scale": 2.0, "site": {"ward": "b"}})
    assert clients[0].asked == [{"server_round": 3, "scale": 2.0}]
    fit(data_dir, client_fn, {"w": f32([1])}, config={"server_round": 9, "site": {"ward": "b"}})
    assert clients[1].asked == [{"server_round": 9}]


def test_a_clients_own_names_decide_its_order_and_the_files_stays(data_dir: Path) -> None:
    class Named(Adds):
        parameter_names: Sequence[str] = ("weights", "bias")

        def fit(self, parameters: list[Any], config: Mapping[str, Any]) -> Any:
            weights, bias = parameters
            assert (weights.shape, bias.shape) == ((2,), (1,))
            return [weights * 0, bias + 1], 10, {}

    fit(data_dir, Named, {"bias": f32([4]), "weights": f32([1, 2])})
    made = read_model(data_dir / "out.npz")
    assert [(name, array.tolist()) for name, array in made.items()] == [
        ("bias", [5.0]),
        ("weights", [0.0, 0.0]),
    ]
    fit(data_dir, Named, None)
    assert list(read_model(data_dir / "out.npz")) == ["weights", "bias"]
    with pytest.raises(ValueError, match="parameter_names are not those of the global: beta, bias"):
        fit(data_dir, Named, {"beta": f32([4]), "weights": f32([1, 2])})


def returning(answer: Any) -> Any:
    """A client whose `fit` and `evaluate` return this."""
    return lambda: SimpleNamespace(fit=lambda *_: answer, evaluate=lambda *_: answer)


@pytest.mark.parametrize(
    ("answer", "kind", "said"),
    [
        ([[1.0]], TypeError, "fit returned list, wanted three things"),
        (([f32([1])], 2.0, {}), TypeError, "number of examples as float"),
        (([f32([1])], 2, None), TypeError, "metrics as NoneType"),
        (([], 2, {}), ValueError, "fit returned 0 tensors, and the global has 1"),
        (([f32([1, 2])], 2, {}), ValueError, r"of shape \(2,\), and the global's is \(1,\)"),
        (([np.array([1])], 2, {}), TypeError, "fit returned w as int64, and the global has float32"),
    ],
)
def test_an_answer_that_is_no_pass_of_this_global_is_named(
    data_dir: Path, answer: Any, kind: type[Exception], said: str
) -> None:
    with pytest.raises(kind, match=said):
        fit(data_dir, returning(answer), {"w": f32([1])})
    assert not (data_dir / "out.npz").exists()


def test_a_wider_float_is_cast_to_the_globals_with_a_note(
    data_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fit(data_dir, returning(([np.array([0.1])], 2, {})), {"w": f32([1])})
    assert read_model(data_dir / "out.npz")["w"].dtype == np.float32
    assert "note: w is cast from float64 to the global's float32" in capsys.readouterr().out


def score(folder: Path, made: Any) -> dict[str, float]:
    """One run of the evaluate hook."""
    write_model(folder / "global.npz", {"w": f32([1, 2])})
    given: dict[str, Any] = {"config": {"site": {}}, "pass_id": 3, "site_id": "nu"}
    return evaluate(global_path=folder / "global.npz", data_dir=folder, client_class=made, **given)


def test_evaluate_reports_the_loss_among_its_metrics(data_dir: Path) -> None:
    assert score(data_dir, Adds) == {"n_samples": 4, "loss": 3.0, "auroc": 0.75}


def test_a_client_that_evaluates_nothing_reports_nothing(data_dir: Path) -> None:
    class TrainsOnly(Adds):
        evaluate = NumPyClient.evaluate

    assert score(data_dir, TrainsOnly) == {"n_samples": 0}
    assert score(data_dir, lambda: SimpleNamespace(fit=len)) == {"n_samples": 0}


def test_a_factory_gets_what_it_names(tmp_path: Path) -> None:
    given = {"data_dir": tmp_path, "site": "nu", "config": {"a": 1}, "pass_id": 2}
    fits = SimpleNamespace(fit=len)
    seen: dict[str, Any] = {}

    def everything(**kwargs: Any) -> Any:
        seen.update(kwargs)
        return fits

    assert build_client(lambda: fits, given) is fits
    assert build_client(everything, given) is fits
    assert given.keys() < seen.keys()
    assert build_client(lambda cid: SimpleNamespace(fit=len, cid=cid), given).cid == "nu"
    assert build_client(lambda ctx: SimpleNamespace(fit=len, ctx=ctx), given).ctx.run_config == {"a": 1}
    assert build_client(lambda context: SimpleNamespace(numpy_client=fits, context=context), given) is fits
    with pytest.raises(TypeError, match="Adds wants data_dir"):
        build_client(Adds, {"site": "nu"})
    with pytest.raises(TypeError, match="has no method fit"):
        build_client(SimpleNamespace, given)


def test_a_global_0_needs_somebody_who_makes_it(data_dir: Path) -> None:
    class Nobody(NumPyClient):
        def fit(self, parameters: Any, config: Any) -> Any:
            raise AssertionError

    with pytest.raises(NotImplementedError, match="initialize_parameters, or initial_model"):
        fit(data_dir, Nobody, None)
    with pytest.raises(TypeError, match="needs get_parameters"):
        fit(data_dir, lambda: SimpleNamespace(fit=len), None)
    with pytest.raises(ValueError, match="gave no tensor"):
        fit(data_dir, lambda: SimpleNamespace(fit=len, get_parameters=list), None)


def test_a_hooks_process_loads_nothing_heavy_with_the_bridge() -> None:
    told = "import stitch.learning.bridge, sys\nprint(*sorted(sys.modules))"
    shown = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True).stdout
    names = {name.partition(".")[0] for name in shown.split()}
    assert "numpy" in names
    assert not names & {
        "azure",
        "cryptography",
        "pydantic",
        "psutil",
        "rich",
        "tenacity",
        "typer",
        "requests",
    }


def test_a_strategy_may_make_global_0_before_any_client_sees_data(tmp_path: Path) -> None:
    class Starts(FedAvg):
        def initialize_parameters(self) -> list[Any]:
            return [np.full(2, 7.0), np.ones(1)]

    class Named(Adds):  # its __init__ would fail: there are no rows
        parameter_names: Sequence[str] | None = ("weights", "bias")

    fit(tmp_path, Named, None, strategy_class=Starts, strategy_options={"weighted": False})
    made = read_model(tmp_path / "out.npz")
    assert {name: array.tolist() for name, array in made.items()} == {"weights": [7.0, 7.0], "bias": [1.0]}
    with pytest.raises(TypeError, match="made Adds, which is no stitch"):
        fit(tmp_path, Named, None, strategy_class=lambda: Adds.__new__(Adds))


def test_evaluations_come_to_one_loss_by_rows_or_as_the_strategy_says() -> None:
    told = [
        {"site": "nu", "n_samples": 30, "metrics": {"loss": 1.0, "auroc": 0.9}},
        {"site": "rush", "n_samples": 10, "metrics": {"loss": 3.0, "auroc": 0.5}},
        {"site": "uchicago", "n_samples": 10, "metrics": {"auroc": 0.1}},
    ]

    class Worst(FedAvg):
        def aggregate_evaluate(self, results: Any) -> Any:
            return max(loss for loss, _, _ in results), {"sites": len(results), "note": "text"}

    assert _evaluated(FedAvg(), told) == {"evaluate.loss": 1.5, "evaluate.auroc": pytest.approx(0.8)}
    assert _evaluated(Worst(), told) == {"evaluate.loss": 3.0, "evaluate.sites": 2}
    assert _evaluated(Worst(), []) == {}
