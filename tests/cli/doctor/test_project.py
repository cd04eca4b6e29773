"""What `doctor` finds in the project folder."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from stitch.cli import checks_project
from stitch.cli.checks import Check
from stitch.cli.checkup import examine
from stitch.clock import SystemClock
from stitch.config import load_settings

TOML = 'run_id = "icu"\nlead = "rush"\nsites = ["rush", "nu"]\nnum_passes = 2\n[transfer]\nmax_file_mb = 1\n'
HOOKS = "def train(global_path, out_path, data_dir): ...\ndef aggregate(site_dir, out_path): ...\n"

Project = Callable[..., Path]


def found(root: Path) -> list[Check]:
    return examine(root, {}, clock=SystemClock())


def test_the_environments_oddities(project: Project) -> None:
    env = "STITCH_STORE='<../store>'\nSTITCH_STORE_RUHS=../store\n"
    root = project(env=env)
    (root / ".env.txt").write_text("STITCH_STORE=../old\n", encoding="utf-8")
    checks = [
        c for c in examine(root, {"STITCH_STORE": "../store"}, clock=SystemClock()) if c.name == "environment"
    ]
    told = " ".join(f"{check.finding} {check.todo}" for check in checks)
    assert all(check.state == "warn" for check in checks)
    assert ".env and .env.txt both exist" in told
    assert "STITCH_STORE_RUHS means nothing here Is it STITCH_STORE_RUSH?" in told
    assert "STITCH_STORE is set outside .env too" in told
    mended = [c for c in found(root) if "quotes around" in c.finding]
    assert len(mended) == 1


def test_git_must_not_take_the_secrets_along(project: Project) -> None:
    root = project()

    def git(*words: str) -> None:
        subprocess.run(["git", *words], cwd=root, check=True, capture_output=True)

    def check() -> list[Check]:
        return list(checks_project.secret_file(root))

    assert check() == []
    git("init", "-q")
    assert check()[0].state == "warn"
    (root / ".gitignore").write_text(".env\n", encoding="utf-8")
    assert check()[0].state == "ok"
    git("add", "-f", ".env")
    assert check()[0].state == "fail"


@pytest.mark.parametrize(
    ("hook", "source", "words", "code"),
    [
        ("code/none.py:train", "", "does not exist", 2),
        ("code/new.py:other", HOOKS, "other", 0),
        ("code/new.py:train", "import no_such_module_here\n" + HOOKS, "no_such_module_here", 0),
        ("code/new.py:train", "def train(:\n", "SyntaxError", 0),
    ],
)
def test_a_hook_that_cannot_be_run(project: Project, hook: str, source: str, words: str, code: int) -> None:
    root = project(f'[hooks]\ntrain = "{hook}"\n')
    if source:
        (root / "code/new.py").write_text(source, encoding="utf-8")
    (check,) = checks_project.hooks(load_settings(root, {}))
    assert check.state == "fail"
    assert words in check.finding + check.todo
    assert check.exit_code == code or 10 <= check.exit_code < 20


def test_a_format_that_runs_code_is_warned_of(project: Project) -> None:
    (check,) = checks_project.model_format(load_settings(project('[hooks]\nmodel_ext = "pkl"\n'), {}))
    assert check.state == "warn"
    assert "runs code" in check.finding


def test_a_disk_without_room(project: Project) -> None:
    settings = load_settings(project().parent / "project", {})
    (check,) = checks_project.disk(settings)
    assert check.state == "ok"
    root = project()
    (root / "stitch.toml").write_text(
        TOML.replace("max_file_mb = 1", "max_file_mb = 1000000"), encoding="utf-8"
    )
    (check,) = checks_project.disk(load_settings(root, {}))
    assert (check.state, check.exit_code) == ("fail", 26)


@pytest.mark.parametrize(
    "path",
    [
        "/home/me/OneDrive - Rush University/p",
        "/Users/me/Library/CloudStorage/Box-Box/p",
        "/home/me/Box/p",
        "/home/me/Dropbox (Lab)/p",
        "/Users/me/Library/Mobile Documents/com~apple~CloudDocs/p",
    ],
)
def test_synced_folders_are_recognised(path: str) -> None:
    assert checks_project.synced_part(Path(path))
    (check,) = checks_project.place(Path(path))
    assert check.state == "warn"


@pytest.mark.parametrize("path", ["/home/me/boxes/p", "/srv/sandbox/p", "/home/dropboxer/p"])
def test_other_folders_are_not(path: str) -> None:
    assert checks_project.synced_part(Path(path)) == ""


def test_a_store_in_a_synced_folder_must_say_so(project: Project) -> None:
    root = project(env="STITCH_STORE=../OneDrive/store\n")
    (root.parent / "OneDrive/store").mkdir(parents=True)
    assert any("synced = true" in check.todo for check in found(root))


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["A.py", "a.py"], "one file where case does not count"),
        (["aux.py"], "a device on Windows"),
        (["a:b"], "cannot exist on Windows"),
        (["dot."], "cannot exist on Windows"),
        (["d" * 101 + "/" + "f" * 101], "longer than 200"),
    ],
)
def test_names_that_do_not_travel(tmp_path: Path, names: list[str], words: str) -> None:
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    (check,) = checks_project.portable(tmp_path)
    assert check.state == "warn"
    assert words in check.finding


def test_long_paths_matter_on_windows_alone(project: Project) -> None:
    settings = load_settings(project(), {})
    assert list(checks_project.long_paths(settings, windows=False)) == []
    (check,) = checks_project.long_paths(settings, windows=True)
    assert check.state in ("ok", "warn")


def test_a_package_that_a_hook_lacks_is_named_with_the_command_that_adds_it(project: Project) -> None:
    root = project()
    (root / "code" / "train.py").write_text(f"import no_such_package\n{HOOKS}", encoding="utf-8")
    (hook,) = (check for check in found(root) if check.name == "hook train")
    assert hook.state == "fail"
    assert "uv add no_such_package" in hook.todo
