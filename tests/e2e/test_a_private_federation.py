"""Real processes of a private run: killed around the charge, and stopped by their budget."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.e2e.breaking import Break
from tests.e2e.federation import RUN_ID, Federation

HOOKS = '''"""Every weight one up; how often it was called stands beside the data."""
import numpy as np
from stitch.learning import read_model, write_model


def train(global_path, out_path, data_dir):
    if global_path is None:
        assert not list(data_dir.iterdir())
        write_model(out_path, {"w": np.zeros(500)})
        return {"n_samples": 0}
    with (data_dir / "calls.log").open("a", encoding="utf-8") as log:
        log.write("train\\\\n")
    write_model(out_path, {"w": read_model(global_path)["w"] + 1.0})
    return {"n_samples": 50}


def aggregate(site_dir, out_path):
    models = [read_model(path)["w"] for path in sorted(site_dir.glob("*/*/model.npz"))]
    write_model(out_path, {"w": np.mean(models, axis=0)})
    return {}
'''.replace("\\\\n", "\\n")
PRIVACY = """[privacy]
mode = "local"
clip = 1.0
noise_multiplier = 1.0
epsilon = 8
delta = 1e-5
data_free_start = true
"""


@pytest.fixture
def fed(tmp_path: Path) -> Iterator[Federation]:
    """Two sites whose budget holds two passes of the three that are asked for."""
    (tmp_path / "store").mkdir()
    federation = Federation(tmp_path / "sites", (tmp_path / "store").as_uri(), num_passes=3)
    for site in federation.sites:
        home = federation.home(site)
        (home / "hooks.py").write_text(HOOKS, encoding="utf-8")
        toml = (home / "stitch.toml").read_text(encoding="utf-8").replace('"bin"', '"npz"')
        (home / "stitch.toml").write_text(toml + "\n" + PRIVACY, encoding="utf-8")
    yield federation
    federation.end()


def journal(fed: Federation, site: str) -> list[dict[str, object]]:
    file = fed.home(site) / "privacy" / "default.jsonl"
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def test_a_site_killed_between_charge_and_upload_sends_the_same_noise_and_pays_once(fed: Federation) -> None:
    """Scenario 15 with SIGKILL, before the model is up and after; then 14: the third pass is refused."""
    lead = fed.start("rush")
    fed.start("nu", Break("push", "sites/nu/pass_001/model")).is_killed()
    [charged] = journal(fed, "nu")
    assert fed.paths("sites/nu/pass_001/") == []
    fed.start("nu", Break("push", "sites/nu/pass_001/model", "after")).is_killed()
    site = fed.start("nu")
    site.ends(38)
    lead.ends(38)
    assert fed.seal(1, "nu")["model_sha256"] == charged["release_sha256"]
    for name in fed.sites:
        sent = [fed.seal(number, name) for number in (1, 2)]
        assert [one["release_sha256"] for one in journal(fed, name)] == [one["model_sha256"] for one in sent]
        assert [one["transforms"] for one in sent] == [["clip:1", "gaussian:1"]] * 2
        assert not [
            path for path in fed.paths(f"sites/{name}/") if path.startswith(f"sites/{name}/pass_003/")
        ]
    calls = (fed.home("nu") / "data" / "calls.log").read_text(encoding="utf-8")
    assert calls.count("train") == 2
    assert fed.json("sites/nu/events/pass_003.failed.json")["exception"] == "PrivacyBudgetExceeded"
    assert fed.has("global/pass_002/metrics.json")
    assert "one more pass would spend epsilon" in site.said
    told = fed.home("nu") / "stitch_store" / RUN_ID / "sites" / "nu" / "pass_001" / "model.npz"
    noise = np.load(told, allow_pickle=False)["w"]
    assert 0.8 < noise.std() < 1.2
