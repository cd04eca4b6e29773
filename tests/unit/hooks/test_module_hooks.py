"""Hooks that are functions of modules: found without being imported here, run and hashed like files."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from stitch.errors import ConfigError, HookFailed
from stitch.hooks import check_files, check_spec, hooks_sha256, parse_spec
from stitch.hooks.modules import find_module
from stitch.hooks.spec import ModuleHook
from tests.unit.hooks.conftest import Project

TRAIN = """\
from icu_hooks.deep import ROWS

def train(global_path, out_path, data_dir, pass_id=0):
    out_path.write_bytes(b"m")
    return {"n_samples": ROWS}
"""


@pytest.fixture
def installed(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on the path of this interpreter and its children, with a package of hooks in it."""
    folder = tmp_path_factory.mktemp("installed")
    package = folder / "icu_hooks"
    (package / "below").mkdir(parents=True)
    (package / "__init__.py").write_text("", encoding="utf-8")
    (package / "fit.py").write_text(TRAIN, encoding="utf-8")
    (package / "deep.py").write_text("ROWS = 12\n", encoding="utf-8")
    (package / "below" / "__init__.py").write_text("", encoding="utf-8")
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setenv("PYTHONPATH", str(folder))
    return package


@pytest.mark.usefixtures("installed")
def test_a_function_of_an_installed_module_is_a_hook(project: Project) -> None:
    assert parse_spec(project.root, "icu_hooks.fit:train") == ModuleHook("icu_hooks.fit", "train")
    check_spec(project.root, "icu_hooks.fit:train", hook="train")
    assert project.run(project.call("icu_hooks.fit:train")).n_samples == 12
    assert "icu_hooks" not in sys.modules


def test_a_package_of_the_project_is_one_too_and_its_failure_has_a_place(project: Project) -> None:
    project.write("cohort/__init__.py", "")
    project.write("cohort/fit.py", "def train(global_path, out_path, data_dir):\n    raise KeyError('x')\n")
    check_spec(project.root, "cohort.fit:train", hook="train")
    with pytest.raises(HookFailed, match=r"cohort\.fit:train raised KeyError at cohort/fit\.py:2"):
        project.run(project.call("cohort.fit:train"))


@pytest.mark.usefixtures("installed")
def test_what_is_not_there_is_named_before_and_in_the_run(project: Project) -> None:
    for name in ("icu_hoks.fit", "icu_hooks.fitt", "icu_hooks.fit.more", "sys", "train"):
        with pytest.raises(ConfigError, match=f"module {name} is not installed") as caught:
            check_files(project.root, f"{name}:train")
        assert '"code/train.py:train"' in caught.value.hint
    with pytest.raises(HookFailed, match=r"cannot be called: the hook's module icu_hoks is not installed"):
        project.run(project.call("icu_hoks:train"))
    with pytest.raises(HookFailed, match=r"icu_hooks\.fit has no function fit; it defines train"):
        check_spec(project.root, "icu_hooks.fit:fit")


def test_modules_are_found_in_namespaces_and_none_of_them_is_run(project: Project) -> None:
    project.write("space/inner/mine.py", "raise SystemExit(3)\n")
    assert find_module(project.root, "space.inner.mine") == project.root / "space/inner/mine.py"
    assert find_module(project.root, "space.inner") is None
    json = find_module(project.root, "json.decoder")
    assert json is not None
    assert json.name == "decoder.py"
    assert not {name for name in sys.modules if name.startswith("space")}


def test_the_hash_of_a_module_hook_is_its_sources_wherever_they_are_installed(
    project: Project, installed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    specs = ["icu_hooks.fit:train"]
    first = hooks_sha256(project.root, specs)
    (installed / "below" / "other.py").write_text("x = 1\n", encoding="utf-8")
    assert hooks_sha256(project.root, specs) == first
    whole = hooks_sha256(project.root, ["icu_hooks:train"])
    (installed / "below" / "other.py").write_text("x = 2\n", encoding="utf-8")
    assert hooks_sha256(project.root, ["icu_hooks:train"]) != whole
    elsewhere = project.root / "elsewhere"
    shutil.copytree(installed, elsewhere / "icu_hooks")
    monkeypatch.syspath_prepend(str(elsewhere))
    assert hooks_sha256(project.root, specs) == first
    (elsewhere / "icu_hooks" / "deep.py").write_bytes(b"ROWS = 13\r\n")
    assert hooks_sha256(project.root, specs) != first
