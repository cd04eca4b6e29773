"""Settings that are wrong in a way that says what was meant: the hint says it."""

from __future__ import annotations

from pathlib import Path

import pytest

from stitch.config import load_settings
from stitch.errors import ConfigError

TOML = 'run_id = "icu"\nlead = "rush"\nsites = ["rush"]\nnum_passes = 2\n'


@pytest.mark.parametrize(
    ("more", "cause", "advice"),
    [
        ('[hooks]\nstrategy = "FedAdam"\n', "'hooks.strategy' is 'FedAdam'", '"stitch.learning:FedAdam"'),
        ('[hooks]\nclient = "IcuClient"\n', "'hooks.client' is 'IcuClient'", '"code/client.py:IcuClient"'),
        ('[hooks]\nstrategy = "code/own.py"\n', "'hooks.strategy' is 'code/own.py'", '"path/file.py:Class"'),
        ("[admission]\nmax_norm = 3\n", "unknown key 'admission'", "admit under [hooks]"),
    ],
)
def test_it_is_told_where_it_belongs(tmp_path: Path, more: str, cause: str, advice: str) -> None:
    (tmp_path / "stitch.toml").write_text(TOML + more, encoding="utf-8")
    with pytest.raises(ConfigError) as refused:
        load_settings(tmp_path, {}, site="rush")
    assert cause in str(refused.value)
    assert advice in refused.value.hint
