"""The `[evaluation]` table: what its keys must be among themselves, and what every actor must agree on."""

from __future__ import annotations

from pathlib import Path

import pytest

from stitch.config import config_facts, load_settings
from stitch.config.evaluation import Evaluation
from stitch.config.settings import Settings
from stitch.errors import ConfigError

TOML = """run_id = "icu"
lead = "rush"
sites = ["rush", "nu"]
num_passes = 3
"""
HOOK = '[hooks]\nevaluate = "code/evaluate.py:evaluate"\n'
BEST = '[evaluation]\nbest_metric = "auroc"\nmode = "max"\n'


def load(folder: Path, tables: str) -> Settings:
    (folder / "stitch.toml").write_text(TOML + tables, encoding="utf-8")
    return load_settings(folder, {}, site="rush")


def test_scores_are_compared_where_there_is_an_evaluate_hook_and_else_the_training(tmp_path: Path) -> None:
    assert load(tmp_path, HOOK + BEST + "patience = 2\n").evaluation == Evaluation(
        best_metric="auroc", mode="max", patience=2, by="evaluation"
    )
    assert load(tmp_path, BEST).evaluation.by == "train"
    assert load(tmp_path, HOOK + BEST + 'when = "final"\n').evaluation.by == "train"


def test_what_decides_the_end_is_agreed_on_and_a_run_that_compares_nothing_keeps_its_hash(
    tmp_path: Path,
) -> None:
    assert config_facts(load(tmp_path, HOOK + BEST + "patience = 2\n"))["evaluation"] == {
        "best_metric": "auroc",
        "mode": "max",
        "by": "evaluation",
        "patience": 2,
    }
    assert "evaluation" not in config_facts(load(tmp_path, HOOK + '[evaluation]\nwhen = "final"\n'))


@pytest.mark.parametrize(
    ("tables", "cause"),
    [
        ('[evaluation]\nbest_metric = "auroc"\n', "mode is missing: is more of auroc better, or less?"),
        ('[evaluation]\nmode = "max"\n', "mode means nothing without best_metric"),
        ('[evaluation]\nwhen = "final"\n', '.when = "final" means nothing: [hooks] has no evaluate'),
        ("[evaluation]\npatience = 3\n", "patience means nothing without best_metric"),
        (BEST + '[egress]\nmetrics = ["loss"]\n', "'auroc' is not among [egress] metrics"),
        (BEST + "patience = 0\n", "patience"),
        ('[evaluation]\nbest_metric = "a b"\nmode = "max"\n', "best_metric"),
        ('[evaluation]\nbest_metric = "auroc"\nmode = "most"\n', '"max" or "min"'),
    ],
)
def test_a_table_that_cannot_be_meant_is_refused(tmp_path: Path, tables: str, cause: str) -> None:
    with pytest.raises(ConfigError) as refused:
        load(tmp_path, tables)
    assert cause in f"{refused.value} {refused.value.hint}"
