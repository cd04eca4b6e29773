"""`clif-stitch demo --privacy`: a newcomer sees clip, noise and budget at work, on either store."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from stitch.store.location import StoreOptions
from stitch.store.open import open_store
from tests.e2e.test_demo import Demo


def test_every_model_that_left_has_its_noise_and_was_charged(tmp_path: Path, store_url: str) -> None:
    demo = Demo(tmp_path, options=("--passes", "1", "--sites", "2", "--privacy"))
    code, text = demo.call("--store", store_url)
    assert code == 0, text
    assert re.search(r"the 1 passes of rush spent\nepsilon (49\.9\d|50) of 50 at delta 1e-05", text), text
    store = open_store(store_url, options=StoreOptions())
    for site in ("rush", "nu"):
        seal = tmp_path / "seal.json"
        store.pull(f"demo/sites/{site}/pass_001/metrics.json", seal)
        sealed = json.loads(seal.read_text(encoding="utf-8"))
        journal = demo.folder / site / "privacy" / "default.jsonl"
        [charged] = [json.loads(line) for line in journal.read_text(encoding="utf-8").splitlines()]
        assert charged["release_sha256"] == sealed["model_sha256"]
        assert sealed["transforms"] == ["clip:1", f"gaussian:{charged['sigma']:g}"]


def test_a_projects_own_settings_are_not_overruled(tmp_path: Path) -> None:
    code, text = Demo(tmp_path, options=("--privacy",)).call("--project", str(tmp_path))
    assert code == 2
    assert "do:    Write a [privacy] table into the project's stitch.toml" in text


@pytest.mark.parametrize("first", [("--privacy",), ()])
def test_a_demo_is_not_continued_as_another(tmp_path: Path, first: tuple[str, ...]) -> None:
    demo = Demo(tmp_path, options=())
    demo.folder.mkdir()
    remembered = {"sites": ["rush", "nu", "uchicago"], "passes": 5, "store": "store", "project": None}
    remembered |= {"policy": "all_expected"} | ({"privacy": True} if first else {})
    (demo.folder / "demo.json").write_text(json.dumps(remembered), encoding="utf-8")
    code, text = demo.call(*(() if first else ("--privacy",)))
    assert code == 2
    assert "was begun with privacy" in text
