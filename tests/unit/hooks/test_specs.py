"""What a hook spec may be, what `doctor` finds wrong with one, and the hash of the hooks."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from stitch.errors import ConfigError, HookFailed, HookTimeout
from stitch.hooks import check_spec, hooks_sha256, parse_spec, risky_extension
from stitch.hooks.spec import CommandHook, PythonHook
from tests.unit.hooks.conftest import Project

GOOD = "def train(global_path, out_path, data_dir, pass_id): ...\n"


def test_specs_are_a_function_in_a_file_or_a_command(tmp_path: Path) -> None:
    assert parse_spec(tmp_path, "code/train.py:train") == PythonHook(tmp_path / "code/train.py", "train")
    assert parse_spec(tmp_path, "code\\train.py:Model.fit") == PythonHook(
        tmp_path / "code/train.py", "Model.fit"
    )
    assert parse_spec(tmp_path, ("Rscript", "a.R")) == CommandHook(("Rscript", "a.R"))


@pytest.mark.parametrize(
    "spec",
    ["", "train", "code/train.py", "code/train.py:", "code/train.R:train", "a.py:f()", "a.py: f", (), ("",)],
)
def test_anything_else_is_refused_with_an_example(tmp_path: Path, spec: str | tuple[str, ...]) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_spec(tmp_path, spec)
    assert "code/train" in caught.value.hint


def test_a_good_hook_passes_the_check_without_being_called(project: Project) -> None:
    project.write("code/train.py", GOOD.replace("...", "open('called', 'w')"))
    check_spec(project.root, "code/train.py:train", hook="train")
    check_spec(project.root, "code/train.py:train")
    assert not (project.root / "called").exists()
    assert not (project.root / "runs").exists()


def test_the_check_finds_what_a_run_would_meet(project: Project) -> None:
    with pytest.raises(ConfigError, match="names a file that does not exist"):
        check_spec(project.root, "code/train.py:train")
    project.write("code/train.py", GOOD)
    with pytest.raises(HookFailed, match="has no function fit; it defines train"):
        check_spec(project.root, "code/train.py:fit")
    with pytest.raises(HookFailed, match="does not accept site_dir"):
        check_spec(project.root, "code/train.py:train", hook="aggregate")
    project.write("code/train.py", "import tourch\n")
    with pytest.raises(HookFailed, match=r"raised ModuleNotFoundError at code/train\.py:1"):
        check_spec(project.root, "code/train.py:train")
    project.write("code/train.py", "import time\ntime.sleep(600)\n")
    with pytest.raises(HookTimeout):
        check_spec(project.root, "code/train.py:train", timeout_s=0.5)


def test_a_command_passes_the_check_when_program_and_script_are_there(project: Project) -> None:
    project.write("code/train.R", "")
    check_spec(project.root, (sys.executable, "code/train.R", "--out=x.py"))


def test_one_hash_for_the_same_sources_on_any_checkout(tmp_path: Path) -> None:
    specs = ("code/train.py:train", "code/aggregate.py:aggregate")
    unix, windows = tmp_path / "unix", tmp_path / "windows"
    for root, data in ((unix, b"a = 1\nb = 2\n"), (windows, b"\xef\xbb\xbfa = 1\r\nb = 2\r\n")):
        (root / "code").mkdir(parents=True)
        for name in ("train.py", "aggregate.py", "features.py"):
            (root / "code" / name).write_bytes(data)
    first = hooks_sha256(unix, specs)
    assert len(first) == 64
    assert hooks_sha256(windows, tuple(reversed(specs))) == first
    assert hooks_sha256(windows, [spec.replace("/", "\\") for spec in specs]) == first
    assert hooks_sha256(Path(f"{unix}/code/.."), specs) == first


def test_the_hash_sees_every_source_beside_a_hook_and_nothing_else(project: Project) -> None:
    specs = ("code/train.py:train", ("Rscript", "r/aggregate.R"))
    for name in ("code/train.py", "code/features.py", "r/aggregate.R", "r/glm.r"):
        project.write(name, "x = 1\n")
    hashes = {hooks_sha256(project.root, specs)}
    for name in ("code/notes.md", "code/__pycache__/train.pyc", "data/rows.csv", "code/old/train.py"):
        project.write(name, "anything\n")
        assert {hooks_sha256(project.root, specs)} == hashes
    for name in ("code/features.py", "r/glm.r", "code/new.py"):
        project.write(name, "x = 2\n")
        hashes.add(hooks_sha256(project.root, specs))
    hashes.add(hooks_sha256(project.root, ("code/train.py:fit", specs[1])))
    assert len(hashes) == 5


def test_a_script_of_any_language_counts_itself(project: Project) -> None:
    project.write("code/train.jl", "x = 1\n")
    first = hooks_sha256(project.root, [("julia", "code/train.jl")])
    project.write("code/train.jl", "x = 2\n")
    assert hooks_sha256(project.root, [("julia", "code/train.jl")]) != first


def test_the_hash_of_a_missing_hook_names_it(project: Project) -> None:
    with pytest.raises(ConfigError, match=r"code/train\.py does not exist"):
        hooks_sha256(project.root, ["code/train.py:train"])


def test_formats_that_run_code_are_told_with_the_reason() -> None:
    for ext in ("pkl", ".PKL", "pickle", "joblib", "pt", ".pth", "ckpt", "rds"):
        assert risky_extension(ext)
    for ext in ("npz", ".json", "ubj", "safetensors", "txt", "onnx", ""):
        assert risky_extension(ext) == ""
