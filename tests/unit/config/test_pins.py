"""`[pins]`, `[integrity]` and `[hooks] leaves`: what they mean, and what a mistake in them gets."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from stitch.config import config_facts, config_sha256, differences, load_settings
from stitch.config.pins import Pin, pins_in_force
from stitch.errors import ConfigError

TOML = 'run_id = "icu-1"\nlead = "rush"\nsites = ["rush", "nu"]\nnum_passes = 5\n'
A, B = "a" * 64, "b" * 64

Project = Callable[[str], Path]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    def write(more: str) -> Path:
        (tmp_path / "config").mkdir(exist_ok=True)
        (tmp_path / "config/config.json").write_text(
            json.dumps({"site_name": "nu", "data_directory": "d"}), encoding="utf-8"
        )
        (tmp_path / "stitch.toml").write_text(TOML + more, encoding="utf-8")
        return tmp_path

    return write


def test_a_pin_is_a_path_and_its_hash_or_a_name_with_both(project: Project) -> None:
    settings = load_settings(
        project(
            f"""
[pins]
"shared/schema.json" = "{A}"
start = {{ path = 'models\\start.npz', sha256 = "{B.upper()}", when = "pass_0" }}
[pins.probe]
path = "./shared/probe.npz"
sha256 = "{A}"
"""
        ),
        {},
    )
    assert settings.pins == {
        "shared/schema.json": Pin("shared/schema.json", A),
        "start": Pin("models/start.npz", B, "pass_0"),
        "probe": Pin("shared/probe.npz", A),
    }
    assert [sorted(pins_in_force(settings.pins, number)) for number in (0, 1, 2)] == [
        ["probe", "shared/schema.json", "start"],
        ["probe", "shared/schema.json", "start"],
        ["probe", "shared/schema.json"],
    ]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('"x.json" = "abc"', "its sha256 is not 64 hex digits"),
        ('"x.json" = 7', "neither a sha256 nor a table"),
        (f'"/etc/passwd" = "{A}"', "cannot name a pin"),
        (f'x = {{ path = "/etc/passwd", sha256 = "{A}" }}', "no file of this project"),
        (f'x = {{ path = "../other/x.json", sha256 = "{A}" }}', "no file of this project"),
        (f"x = {{ path = 'C:\\x.json', sha256 = \"{A}\" }}", "no file of this project"),
        (f'x = {{ path = "", sha256 = "{A}" }}', "no file of this project"),
        (f'x = {{ path = ".", sha256 = "{A}" }}', "no file of this project"),
        (f'x = {{ sha256 = "{A}", when = "often" }}', "when is 'often'"),
        (f'x = {{ sha = "{A}" }}', "unknown key 'sha'"),
        ('x = { path = "x.json" }', "its sha256 is not 64 hex digits"),
        (f'x = {{ sha256 = "{A}", when = 1 }}', "neither a sha256 nor a table"),
    ],
)
def test_a_pin_that_cannot_be_used_is_named(project: Project, line: str, said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        load_settings(project(f"[pins]\n{line}\n"), {})
    assert said in str(refused.value)
    assert "[pins]" in str(refused.value)
    assert refused.value.hint


def test_too_many_pins_are_refused(project: Project) -> None:
    lines = "\n".join(f'x{number} = "{A}"' for number in range(65))
    with pytest.raises(ConfigError, match="65 pins"):
        load_settings(project(f"[pins]\n{lines}\n"), {})


@pytest.mark.parametrize("line", ['same_train = "maybe"', "commit = 1", "comit = true", "same_train = true"])
def test_integrity_takes_only_what_it_knows(project: Project, line: str) -> None:
    with pytest.raises(ConfigError, match="integrity"):
        load_settings(project(f"[integrity]\n{line}\n"), {})


def test_leaves_are_a_python_function(project: Project) -> None:
    settings = load_settings(project('[hooks]\nleaves = "code/leaves.py:leaves"\n'), {})
    assert settings.hooks.leaves == "code/leaves.py:leaves"
    for value in ('["Rscript", "leaves.R"]', '"leaves.R"'):
        with pytest.raises(ConfigError, match=r"hooks\.leaves"):
            load_settings(project(f"[hooks]\nleaves = {value}\n"), {})


def test_runs_without_pins_and_commitments_keep_their_hash(project: Project) -> None:
    """Published manifests are read for ever: nothing is added to their settings."""
    plain = config_facts(load_settings(project(""), {}))
    assert not {"pins", "integrity"} & plain.keys()
    off = '[integrity]\ncommit = false\nsame_train = "refuse"\n[pins]\n'
    assert config_facts(load_settings(project(off), {})) == plain


def test_every_actor_must_agree_on_pins_and_on_committing(project: Project) -> None:
    texts = ["", "[integrity]\ncommit = true\n", f'[pins]\nx = "{A}"\n', f'[pins]\nx = "{B}"\n']
    texts.append(f'[pins]\nx = {{ sha256 = "{A}", when = "pass_0" }}\n')
    settings = [load_settings(project(text), {}) for text in texts]
    assert len({config_sha256(one) for one in settings}) == len(texts)
    facts = [config_facts(one) for one in settings]
    assert differences(facts[0], facts[1]) == "integrity.commit (begun with nothing, here true)"
    assert differences(facts[2], facts[4]) == 'pins.x.when (begun with "always", here "pass_0")'


def test_where_a_file_lies_is_a_site_s_own_business(project: Project) -> None:
    here = load_settings(project(f'[pins]\nx = {{ path = "a/x", sha256 = "{A}" }}\n'), {})
    there = load_settings(project(f'[pins]\nx = {{ path = "b/x", sha256 = "{A}" }}\n'), {})
    assert config_sha256(here) == config_sha256(there)


def test_all_differing_names_are_told(project: Project) -> None:
    begun = {"a": 1, "b": 1, "c": 1, "d": 1, "e": {"f": 1}}
    ours = {"a": 2, "b": 2, "c": 2, "d": 2, "e": {}}
    three = "a (begun with 1, here 2), b (begun with 1, here 2), c (begun with 1, here 2)"
    assert differences(begun, ours) == f"{three} and d, e.f"


def test_a_difference_without_a_name_is_still_told() -> None:
    """A newer version may leave an empty table where this one leaves none: the hashes differ."""
    assert differences({"more": {}}, {}) == "in something that this version does not know"
