"""A client and a strategy in stitch.toml: the hooks they stand for, and what they do not go with."""

from __future__ import annotations

from pathlib import Path

import pytest

from stitch.client.calls import aggregate_call, evaluate_call, train_call
from stitch.config import config_facts, config_sha256, load_settings
from stitch.config.settings import Settings
from stitch.errors import ConfigError
from stitch.hooks.call import HookCall
from stitch.layout import PassRef
from stitch.mirror import Mirror

TOML = """\
run_id = "icu-1"
lead = "rush"
sites = ["rush", "nu"]
num_passes = 5
config = { rows = 3 }
"""
HOOKS = '[hooks]\nclient = "code/client.py:IcuClient"\nstrategy = "stitch.learning:FedAvgM"\n'
OPTIONS = "[strategy]\nmomentum = 0.5\n[train]\nconfig = { epochs = 2 }\n"


def load(folder: Path, more: str) -> Settings:
    (folder / "stitch.toml").write_text(TOML + more, encoding="utf-8")
    return load_settings(folder, {}, site="nu")


def calls(settings: Settings) -> tuple[HookCall, HookCall, HookCall]:
    """Train, aggregate and evaluate."""
    stage = Mirror(settings.mirror_dir).stage(PassRef(1, "nu"))
    root = settings.root
    return (
        train_call(settings, stage, base=root, pass_id=1, seed=1),
        aggregate_call(settings, stage, base=root, bases=root, pass_id=1, seed=1, n_samples=1),
        evaluate_call(settings, stage, spec="a.py:e", model=root, pass_id=1),
    )


def test_they_stand_for_the_hooks(tmp_path: Path) -> None:
    hooks = load(tmp_path, HOOKS).hooks
    assert (hooks.client, hooks.strategy) == ("code/client.py:IcuClient", "stitch.learning:FedAvgM")
    assert (hooks.train, hooks.aggregate, hooks.evaluate) == (
        "stitch.learning.bridge:train",
        "stitch.learning.bridge:aggregate",
        "stitch.learning.bridge:evaluate",
    )


def test_each_goes_with_a_hook_for_the_other_half(tmp_path: Path) -> None:
    hooks = load(
        tmp_path, '[hooks]\nclient = "a.py:A"\nevaluate = "b.py:e"\naggregate = ["Rscript", "x.R"]\n'
    ).hooks
    assert (hooks.train, hooks.evaluate, hooks.aggregate) == (
        "stitch.learning.bridge:train",
        "b.py:e",
        ("Rscript", "x.R"),
    )
    hooks = load(tmp_path, '[hooks]\ntrain = "a.py:t"\nstrategy = "b.py:S"\nmodel_ext = "json"\n').hooks
    assert (hooks.train, hooks.aggregate, hooks.evaluate) == (
        "a.py:t",
        "stitch.learning.bridge:aggregate",
        None,
    )


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ('[hooks]\nclient = "a.py:A"\ntrain = "b.py:t"\n', "both client and train"),
        ('[hooks]\nstrategy = "a.py:A"\naggregate = "b.py:a"\n', "both strategy and aggregate"),
        ('[hooks]\nclient = "a.py:A"\nmodel_ext = "json"\n', "a .json has none"),
        ('[hooks]\nclient = "a.py"\n', "'hooks.client' is 'a.py'"),
        ('[hooks]\nclient = ["python", "a.py"]\n', "'hooks.client' is ['python', 'a.py'] (a list)"),
        ("[strategy]\nmomentum = 0.5\n", "names no strategy"),
        (HOOKS + "[strategy]\nmomentum = nan\n", "'strategy'"),
    ],
)
def test_what_does_not_go_together_is_refused_by_name(tmp_path: Path, more: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, more)
    assert said in str(caught.value)
    assert caught.value.hint


def test_all_agree_on_the_strategy_and_its_options(tmp_path: Path) -> None:
    plain, settings = load(tmp_path, ""), load(tmp_path, HOOKS + OPTIONS)
    assert "strategy" not in config_facts(plain)
    assert config_facts(settings)["strategy"] == {
        "name": "stitch.learning:FedAvgM",
        "options": {"momentum": 0.5},
    }
    assert config_sha256(settings) != config_sha256(load(tmp_path, HOOKS))


def test_the_hooks_get_the_classes_and_other_hooks_get_none(tmp_path: Path) -> None:
    classes = {"client_class", "strategy_class", "strategy_options", "train_config"}
    assert all(not classes & call.optional.keys() for call in calls(load(tmp_path, "")))
    train, other, score = calls(load(tmp_path, HOOKS + OPTIONS))
    assert all(classes < call.optional.keys() for call in (train, other, score))
    assert train.optional["client_class"] == "code/client.py:IcuClient"
    assert train.optional["site_id"] == "nu"
    assert train.optional["config"] == {"rows": 3, "epochs": 2, "site": {}}
    assert other.optional["strategy_options"] == {"momentum": 0.5}
    assert other.optional["train_config"] == {"rows": 3, "epochs": 2}
    assert score.optional["config"] == {"rows": 3, "site": {}}


def test_the_strategy_of_a_buffered_run_is_told_the_size_of_the_buffer(tmp_path: Path) -> None:
    buffered = '[policy]\nrequire = "buffered"\nbuffer_size = 3\n'
    _, other, _ = calls(load(tmp_path, HOOKS + buffered))
    assert other.optional["strategy_defaults"] == {"buffer_size": 3}
    assert all("strategy_defaults" not in call.optional for call in calls(load(tmp_path, buffered)))
    _, other, _ = calls(load(tmp_path, HOOKS))
    assert other.optional["strategy_defaults"] == {}
