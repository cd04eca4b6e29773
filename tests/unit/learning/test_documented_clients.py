"""docs/clients.md says what is so: its client and its strategy run, and what doctor says of wrong ones."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stitch.config import load_settings
from stitch.errors import HookFailed
from stitch.hooks import check_spec
from stitch.learning import read_model
from stitch.learning.bridge import aggregate, evaluate, train

PAGE = (Path(__file__).parents[3] / "docs" / "clients.md").read_text(encoding="utf-8")


def documented(name: str) -> Any:
    """The class of this name from the page's examples."""
    text = next(
        block for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if f"class {name}(" in block
    )
    names: dict[str, Any] = {}
    exec(compile(text, "clients.md", "exec"), names)  # noqa: S102 - the page's own example
    return names[name]


def test_the_settings_of_the_page_are_settings(tmp_path: Path) -> None:
    indented = re.search(r"(?m)(^    \[hooks\]\n(?:    .*\n|\n)+)", PAGE)
    assert indented is not None
    head = 'run_id = "r"\nlead = "rush"\nsites = ["rush"]\nnum_passes = 1\n'
    (tmp_path / "stitch.toml").write_text(head + re.sub(r"(?m)^    ", "", indented[1]), encoding="utf-8")
    settings = load_settings(tmp_path, {}, site="rush")
    assert settings.hooks.client == "code/client.py:IcuClient"
    assert settings.strategy_options == {"momentum": 0.9, "max_norm": 10.0}
    assert settings.train_config == {"epochs": 2, "learning_rate": 0.1}


def test_the_client_and_the_strategy_of_the_page_make_a_round(tmp_path: Path) -> None:
    client, strategy = documented("IcuClient"), documented("Halving")
    given: dict[str, Any] = {
        "client_class": client,
        "site_id": "nu",
        "config": {"learning_rate": 0.5, "site": {}},
    }
    start = tmp_path / "pass_000" / "model.npz"
    rows = {"nu": np.full((10, 2), 4.0), "rush": np.full((30, 2), 8.0)}
    for site, data in rows.items():
        folder = tmp_path / "inputs" / site / "pass_001"
        folder.mkdir(parents=True)
        np.savetxt(folder / "rows.csv", data, delimiter=",")
        start.parent.mkdir(exist_ok=True)
        if not start.exists():
            train(global_path=None, out_path=start, data_dir=folder, pass_id=0, **given)
        out = folder / "model.npz"
        answer = train(global_path=start, out_path=out, data_dir=folder, pass_id=1, **given)
        assert answer == {"n_samples": len(data), "step": data[0, 0] / 2}
        (folder / "metrics.json").write_text(json.dumps({"n_samples": len(data)}), encoding="utf-8")
    config_out = tmp_path / "next.json"
    made = aggregate(
        site_dir=tmp_path / "inputs",
        out_path=tmp_path / "model.npz",
        strategy_class=strategy,
        strategy_options={},
        train_config={"learning_rate": 0.1},
        global_path=start,
        bases_dir=tmp_path,
        pass_id=1,
        round_seed=1,
        config_out_path=config_out,
    )
    assert made["n_samples"] == 40
    assert read_model(tmp_path / "model.npz")["arr_0000"].tolist() == [3.5, 3.5]  # (10 * 2 + 30 * 4) / 40
    assert json.loads(config_out.read_text(encoding="utf-8")) == {"learning_rate": 0.05}
    scored = evaluate(global_path=start, data_dir=tmp_path / "inputs/rush/pass_001", pass_id=0, **given)
    assert scored == {"n_samples": 30, "loss": 64.0}


def test_doctor_finds_a_class_that_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "client.py").write_text("class IcuClient:\n    pass\n", encoding="utf-8")
    check_spec(tmp_path, "client.py:IcuClient")
    check_spec(tmp_path, "stitch.learning:FedAvg")
    with pytest.raises(HookFailed, match=r"client\.py has no function IcuKlient"):
        check_spec(tmp_path, "client.py:IcuKlient")
    with pytest.raises(HookFailed, match=r"stitch\.learning has no function FedAverage"):
        check_spec(tmp_path, "stitch.learning:FedAverage")
