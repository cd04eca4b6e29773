"""`[privacy]`: what is refused before any file is written, and what every actor must agree on."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from stitch.client.budget import budget_of, journal_of, noise_of
from stitch.config import config_facts, load_settings
from stitch.errors import ConfigError

HEAD = 'run_id = "icu"\nlead = "rush"\nsites = ["rush", "nu"]\nnum_passes = 50\n'
START = 'initial_model = "start.npz"\n'
LOCAL = '[privacy]\nmode = "local"\nclip = 1\nepsilon = 8\ndelta = 1e-5\n'

Project = Callable[..., Path]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    def write(more: str, *, start: str = START, **site: str) -> Path:
        (tmp_path / "stitch.toml").write_text(HEAD + start + more, encoding="utf-8")
        (tmp_path / "config").mkdir(exist_ok=True)
        text = json.dumps({"site_name": "nu", "data_directory": "data", **site})
        (tmp_path / "config" / "config.json").write_text(text, encoding="utf-8")
        return tmp_path

    return write


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (
            '[privacy]\nmode = "local"\nepsilon = 8\ndelta = 1e-5\nnoise_multiplier = 1',
            "clip is missing: noise",
        ),
        ("[privacy]\nnoise_multiplier = 1.0", "clip is missing: noise without a clip protects nothing"),
        ("[privacy]\nclip = 1.0\nnoise_multiplier = 1.0", "privacy.clip means nothing without privacy.mode"),
        ('[privacy]\nmode = "local"\nclip = 1\ndelta = 1e-5', "privacy.epsilon is missing"),
        ('[privacy]\nmode = "local"\nclip = 1\nepsilon = 8', "privacy.delta is missing"),
        ('[hooks]\nmodel_ext = "json"\n' + LOCAL, ".json files are opaque"),
        ('[hooks]\nmodel_ext = "bin"\n[privacy]\ngroups = ["a"]', ".bin files are opaque"),
        (
            '[hooks]\npre_aggregate = "a.py:f"\n' + LOCAL,
            'pre_aggregate cannot be combined with privacy.mode = "local"',
        ),
        (
            '[hooks]\npre_aggregate = "a.py:f"\n[privacy]\npre_release = "a.py:g"',
            "pre_aggregate cannot be combined with privacy.pre_release",
        ),
        (
            '[hooks]\naggregate = "a.py:f"\n' + LOCAL.replace("local", "central"),
            'hooks.aggregate cannot be chosen with privacy.mode = "central"',
        ),
        (
            '[integrity]\nreproduce = "abort"\n' + LOCAL.replace("local", "central"),
            "integrity.reproduce means nothing with",
        ),
        (LOCAL + "noise_multiplier = 0.001", "privacy.noise_multiplier"),
        (LOCAL + "sigma = 2", "unknown key 'privacy.sigma'"),
    ],
)
def test_a_promise_that_cannot_hold_is_refused_and_no_file_is_written(
    project: Project, more: str, said: str
) -> None:
    """Scenario 7 among them: a transform at the lead beside one at the sites."""
    root = project(more)
    before = sorted(root.rglob("*"))
    with pytest.raises(ConfigError) as it:
        load_settings(root, {})
    assert said in str(it.value)
    assert it.value.exit_code == 2
    assert it.value.hint
    assert sorted(root.rglob("*")) == before


def test_the_starting_model_must_show_no_data(project: Project) -> None:
    with pytest.raises(ConfigError, match="needs a starting model that was made without data"):
        load_settings(project(LOCAL, start=""), {})
    assert load_settings(project(LOCAL + "data_free_start = true", start=""), {}).privacy.data_free_start


def test_without_a_noise_multiplier_the_budget_and_the_passes_decide_it(project: Project) -> None:
    settings = load_settings(project(LOCAL), {})
    assert noise_of(settings) == 4.245
    assert budget_of(settings).holds([noise_of(settings)] * 50)
    assert noise_of(load_settings(project(LOCAL + "noise_multiplier = 9.5"), {})) == 9.5
    assert noise_of(load_settings(project(LOCAL + 'adjacency = "replace"'), {})) == 8.489


def test_noise_at_the_lead_brings_its_own_aggregate_hook(project: Project) -> None:
    settings = load_settings(project(LOCAL.replace("local", "central")), {})
    assert settings.hooks.aggregate == "stitch.privacy.central:aggregate"


def test_actors_must_agree_on_all_but_what_is_a_sites_own(project: Project) -> None:
    plain = config_facts(load_settings(project(""), {}))
    assert "privacy" not in plain
    settings = load_settings(project(LOCAL, dataset="icu-2024", privacy_directory="kept"), {})
    assert config_facts(settings)["privacy"] == {"mode": "local", "clip": 1.0, "epsilon": 8.0, "delta": 1e-5}
    other = replace(settings, privacy=replace(settings.privacy, clip=2.0))
    assert config_facts(other) != config_facts(settings)
    journal = journal_of(settings).file
    assert journal == settings.root / "kept" / "icu-2024.jsonl"


@pytest.mark.parametrize("name", ["", "../away", "a b", "x" * 65, "NUL.1"])
def test_a_data_sets_name_becomes_a_file_so_it_is_looked_at(project: Project, name: str) -> None:
    with pytest.raises(ConfigError, match="cannot name a data set"):
        load_settings(project(LOCAL, dataset=name), {})


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ('[hooks]\nmodel_ext = "json"\n[compression]\nkind = "int8"', ".json files are opaque"),
        ('[hooks]\npre_aggregate = "a.py:f"\n[compression]\nkind = "int8"', "hooks.pre_aggregate cannot be"),
        (LOCAL + '[compression]\nkind = "top_k"', 'kind = "top_k" cannot be combined with privacy.mode'),
        ('[compression]\nkind = "top_k"\nkeep = 0', "compression.keep"),
    ],
)
def test_compression_that_would_break_a_promise_is_refused(project: Project, more: str, said: str) -> None:
    with pytest.raises(ConfigError) as it:
        load_settings(project(more), {})
    assert said in str(it.value)


def test_compression_is_agreed_on_and_int8_may_follow_noise(project: Project) -> None:
    settings = load_settings(project(LOCAL + '[compression]\nkind = "int8"'), {})
    assert config_facts(settings)["compression"] == {"kind": "int8", "keep": 0.01}
    assert settings.compression.name == "int8"
    assert "compression" not in config_facts(load_settings(project(LOCAL), {}))


@pytest.mark.parametrize("kind", ["int8", "top_k"])
def test_what_is_compressed_can_be_looked_into_too(project: Project, kind: str) -> None:
    admit = "stitch.learning.check:admit"
    settings = load_settings(project(f'[hooks]\nadmit = "{admit}"\n[compression]\nkind = "{kind}"'), {})
    assert (settings.hooks.admit, settings.compression.kind) == (admit, kind)
