"""Models that are no good, opened in a process of their own: left out by name, and the others go on."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from stitch import layout
from stitch.layout import PassRef
from tests.e2e.federation import Federation

HOOKS = '''
from pathlib import Path

import numpy as np

import stitch.learning as learning

WRONG = {
    "nu": lambda w: np.where(np.arange(w.size) == 1, np.nan, w),
    "uc": lambda w: np.zeros(w.size + 1),
    "emory": lambda w: w * 1e6,
}


def train(global_path, out_path, data_dir, config):
    start = np.load(global_path)["w"] if global_path else np.zeros(4)
    site = config["site"]["site_name"]
    wrong = WRONG.get(site, lambda w: w) if global_path else lambda w: w
    np.savez(out_path, w=wrong(start + float((data_dir / "value.txt").read_text())))
    return {"n_samples": int((data_dir / "n_samples.txt").read_text())}


def aggregate(site_dir, out_path, global_path, bases_dir):
    return learning.aggregate(
        site_dir=site_dir, out_path=out_path, global_path=global_path, bases_dir=bases_dir,
        strategy=learning.FedAvg(),
    )


def admit(model_path, base_path, reason_path, site_id):
    """Brings its own process down over one site's model, as a broken reader would."""
    import os

    from stitch.learning.check import admit as look

    if site_id == "umn":
        os.abort()
    return look(model_path=model_path, base_path=base_path, reason_path=reason_path, config={"max_norm": 100})
'''


@pytest.fixture
def six(tmp_path: Path) -> Federation:
    """Six sites over a folder; the lead's settings have the admit hook, the strangers' do not."""
    (tmp_path / "store").mkdir()
    sites = ("rush", "nu", "uc", "emory", "ohsu", "umn")
    fed = Federation(tmp_path / "sites", (tmp_path / "store").as_uri(), sites=sites, num_passes=1)
    for site in sites:
        home = fed.home(site)
        (home / "hooks.py").write_text(HOOKS, encoding="utf-8")
        text = (home / "stitch.toml").read_text(encoding="utf-8").replace('"bin"', '"npz"')
        if site == "rush":
            text = text.replace("[hooks]", '[hooks]\nadmit = "hooks.py:admit"')
        (home / "stitch.toml").write_text(text, encoding="utf-8")
    (fed.home("ohsu") / "data" / "n_samples.txt").write_text("0", encoding="utf-8")
    return fed


def test_poisoned_nan_misshapen_weightless_and_crashing_models_are_left_out_by_name(six: Federation) -> None:
    try:
        six.finish()
        record = six.seal(1)["round"]
        assert isinstance(record, dict)
        assert [one["site"] for one in record["inputs"]] == ["rush"]
        assert {one["site"]: one["reason"] for one in record["excluded"]} == {
            "nu": "it is not finite in 'w'",
            "uc": "its 'w' is float64 (5), the global's float64 (4)",
            "emory": "its change has the norm 1e+07, allowed is 100",
            "ohsu": "zero samples",
            "umn": "reading its model ended in SIGABRT",
        }
        verdict = json.loads(six.read(layout.verdict(1, 0)))
        assert verdict["excluded"] == record["excluded"]
        assert six.json(layout.done())["final_pass"] == 1
        final = six.mirror("nu") / PassRef(1).folder / "model.npz"
        assert np.load(final)["w"].tolist() == [2.0] * 4
    finally:
        six.end()
