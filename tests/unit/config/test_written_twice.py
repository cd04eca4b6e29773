"""A key that stands twice in stitch.toml: what TOML calls "overwrite" is told in a person's words."""

from __future__ import annotations

import pytest

from stitch.config.load import parse_stitch_file
from stitch.errors import ConfigError

TOML = 'run_id = "r"\nlead = "nu"\nsites = ["nu"]\nnum_passes = 2\n'


@pytest.mark.parametrize("more", ["num_passes = 7", "[policy]\n[policy]", "[train]\nconfig = {a = 1, a = 2}"])
def test_what_stands_twice_is_called_so(more: str) -> None:
    with pytest.raises(ConfigError, match="not valid TOML") as caught:
        parse_stitch_file(f"{TOML}{more}\n")
    assert "second time" in caught.value.hint


def test_another_mistake_is_told_how_values_are_written() -> None:
    with pytest.raises(ConfigError, match="not valid TOML") as caught:
        parse_stitch_file(f"{TOML}initial_model = start.npz\n")
    assert "double quotes" in caught.value.hint
