"""`[train] config`: what the train hook gets over the `[config]` table."""

from __future__ import annotations

from pathlib import Path

import pytest

from stitch.config import config_facts, config_sha256, load_settings
from stitch.config.settings import Settings
from stitch.errors import ConfigError

TOML = 'run_id = "icu-1"\nlead = "rush"\nsites = ["rush"]\nnum_passes = 5\n'


def load(folder: Path, more: str = "") -> Settings:
    (folder / "stitch.toml").write_text(TOML + more, encoding="utf-8")
    return load_settings(folder, {}, site="rush")


def test_a_train_config_is_part_of_what_all_agree_on_once_there_is_one(tmp_path: Path) -> None:
    plain = load(tmp_path)
    settings = load(tmp_path, "[train]\nconfig = { epochs = 2, schedule = 'cosine' }\n")
    assert settings.train_config == {"epochs": 2, "schedule": "cosine"}
    assert "train" not in config_facts(plain)
    assert config_facts(settings) == {**config_facts(plain), "train": {"config": settings.train_config}}
    assert config_sha256(settings) != config_sha256(plain)


def test_what_is_no_table_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, "[train]\nconfig = 3\n")
    assert "train.config" in caught.value.hint
