"""`clif-stitch init`: what a lead types, sees and gets."""

from __future__ import annotations

import shutil
import stat
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from stitch.cli import own_wheel, scaffold
from stitch.cli.app import main
from stitch.cli.scaffold import TEMPLATES, format_warning, render_project, templates_dir
from stitch.errors import ConfigError, DiskError, StitchError
from stitch.version import __version__

ROOT = Path(__file__).resolve().parents[2]
LAYOUT = [
    "README.md",
    "SITE_INSTRUCTIONS.md",
    "pyproject.toml",
    ".python-version",
    ".gitignore",
    ".gitattributes",
    "stitch.toml",
    ".env.example",
    "config/config_template.json",
    "config/README.md",
    "config/.gitignore",
    "code/00_cohort.py",
    "code/01_features.py",
    "code/train.py",
    "code/aggregate.py",
    "shared/feature_schema.json",
    "output/final_no_phi/.gitkeep",
    "output/intermediate_phi/README.md",
    "run_stitch.sh",
    "run_stitch.bat",
    "run_stitch.ps1",
    "guides/buddy-test-report-template.md",
    "demo/make_synthetic.py",
    "demo/README.md",
]
ASKED = ("--lead", "rush", "--sites", "rush,nu,uchicago")


def init(*words: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["init", *words])
    assert isinstance(ended.value.code, int)
    return ended.value.code


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(own_wheel, "clone", lambda: None)  # as where it was installed as a package


def test_it_makes_the_layout_of_a_clif_project(capsys: pytest.CaptureFixture[str]) -> None:
    assert init("icu-mortality", *ASKED) == 0
    project = Path("icu-mortality")
    assert [name for name in LAYOUT if not (project / name).is_file()] == []
    assert not (project / "config" / "config.json").exists()  # each site writes its own
    readme = (project / "README.md").read_text(encoding="utf-8")
    assert {"## CLIF VERSION", "## Required tables", "## Expected Results"} <= set(readme.split("\n"))
    said = capsys.readouterr().out
    assert said.isascii()
    assert max(len(line) for line in said.split("\n")) <= 80
    assert "uv run clif-stitch demo --project ." in said


@pytest.mark.parametrize("template", TEMPLATES)
def test_nothing_of_the_template_language_is_left(template: str) -> None:
    project = render_project(Path("x1"), lead="rush", sites=["rush", "nu"], template=template)
    for name in project.files:
        text = (project.root / name).read_bytes()
        assert b"{{" not in text, name
        assert not name.endswith((".tmpl", "template.toml"))
        assert b"\r" not in text or name.endswith(".bat"), name
        if not name.endswith(".md"):
            assert text.decode("utf-8").isascii(), name


@pytest.mark.parametrize("template", TEMPLATES)
def test_it_pins_the_version_that_made_it(template: str) -> None:
    project = render_project(Path("numpy"), lead="rush", sites=["rush"], template=template)
    table = tomllib.loads((project.root / "pyproject.toml").read_text(encoding="utf-8"))
    assert f"clif-stitch=={__version__}" in table["project"]["dependencies"]
    assert table["project"]["name"] not in {"numpy", "clif-stitch"}  # uv refuses a project that needs itself
    assert "sources" not in table["tool"]["uv"]


def test_a_wheel_travels_with_the_project() -> None:
    wheel = Path("clif_stitch-9.8.7-py3-none-any.whl")
    wheel.write_bytes(b"wheel")
    assert init("p", *ASKED, "--wheel", str(wheel)) == 0
    table = tomllib.loads(Path("p/pyproject.toml").read_text(encoding="utf-8"))
    assert "clif-stitch" in table["project"]["dependencies"]
    assert table["tool"]["uv"]["sources"]["clif-stitch"] == {"path": f"vendor/{wheel.name}"}
    assert (Path("p/vendor") / wheel.name).read_bytes() == b"wheel"


def test_a_clone_packs_itself_so_that_uv_finds_at_a_site_what_the_lead_ran(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.undo()  # the real clone
    monkeypatch.chdir(tmp_path)
    assert init("p", *ASKED) == 0
    (wheel,) = Path("p/vendor").glob("*.whl")
    table = tomllib.loads(Path("p/pyproject.toml").read_text(encoding="utf-8"))
    assert table["tool"]["uv"]["sources"]["clif-stitch"] == {"path": f"vendor/{wheel.name}"}
    with zipfile.ZipFile(wheel) as packed:
        assert packed.read("stitch/cli/init.py") == (ROOT / "stitch/cli/init.py").read_bytes()
    assert "warning" not in capsys.readouterr().out


def test_a_clone_that_cannot_pack_itself_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(own_wheel, "clone", lambda: tmp_path)  # nothing that could be built
    monkeypatch.delenv("UV", raising=False)
    assert init("p", *ASKED) == 0
    said = capsys.readouterr().out
    assert "uv build --wheel" in " ".join(said.split())
    assert not Path("p/vendor").exists()


def test_what_the_demo_makes_in_a_project_is_not_committed() -> None:
    project = render_project(Path("p"), lead="rush", sites=["rush"])
    subprocess.run(["git", "init", "-q"], cwd=project.root, check=True)
    (project.root / "clif-stitch-demo" / "store").mkdir(parents=True)
    (project.root / "clif-stitch-demo" / "store" / "model.npz").write_bytes(b"model")
    subprocess.run(["git", "add", "."], cwd=project.root, check=True)
    added = subprocess.run(
        ["git", "ls-files", "clif-stitch-demo"], cwd=project.root, check=True, capture_output=True, text=True
    )
    assert added.stdout == ""


@pytest.mark.parametrize("name", ["nothing.whl", "numpy-2.0-cp311-cp311-linux_x86_64.whl", "clif_stitch.whl"])
def test_a_file_that_is_no_wheel_of_ours_is_refused(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    if name != "nothing.whl":
        Path(name).write_bytes(b"")
    assert init("p", *ASKED, "--wheel", name) == 2
    assert name in capsys.readouterr().err
    assert not Path("p").exists()


def test_it_never_overwrites(capsys: pytest.CaptureFixture[str]) -> None:
    Path("p").mkdir()
    Path("p/mine.txt").write_text("mine", encoding="utf-8")
    assert init("p", *ASKED) == 2
    assert "already exists" in capsys.readouterr().err
    assert [path.name for path in Path("p").iterdir()] == ["mine.txt"]
    Path("file").write_text("mine", encoding="utf-8")
    assert init("file", *ASKED) == 2
    assert Path("file").read_text(encoding="utf-8") == "mine"


def test_an_empty_folder_is_filled() -> None:
    Path("p").mkdir()
    assert init("p", *ASKED) == 0
    assert Path("p/stitch.toml").is_file()


def test_the_current_folder_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert init(".", *ASKED) == 2
    assert "Name a new folder" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--lead", "mayo", "--sites", "rush,nu"), "the lead 'mayo' is not among the sites rush, nu"),
        (("--lead", "rush", "--sites", "rush,n u"), "'n u' cannot be a site id"),
        (("--lead", "rush", "--sites", "rush,NU,nu"), "are the same site"),
        (("--lead", "rush", "--sites", "rush,con"), "Windows device name"),
        (("--lead", "rush", "--sites", ""), "the lead 'rush' is not among the sites (none)"),
        ((*ASKED, "--template", "torch"), "Choose one of: numpy, gbm, r."),
    ],
)
def test_bad_input_gets_one_line_and_leaves_nothing(
    words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert init("p", *words) == 2
    shown = capsys.readouterr()
    assert said in shown.err
    assert len(shown.err.strip().split("\n")) == 2  # the cause, and what to do
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("folder", "run_id"),
    [("ICU Mortality (2026)", "icu-mortality-2026"), ("a/b/Sepsis_v2", "sepsis-v2"), ("x" * 80, "x" * 64)],
)
def test_the_run_is_named_after_the_folder(folder: str, run_id: str) -> None:
    assert render_project(Path(folder), lead="rush", sites=["rush"]).run_id == run_id


@pytest.mark.parametrize("folder", ["---", "NUL"])
def test_a_folder_name_that_names_no_run_is_refused(folder: str) -> None:
    with pytest.raises(ConfigError, match="cannot be a run id"):
        render_project(Path(folder), lead="rush", sites=["rush"])


def test_site_names_are_stored_in_lower_case() -> None:
    assert init("p", "--lead", "RUSH", "--sites", "Rush, NU ,uChicago,") == 0
    table = tomllib.loads(Path("p/stitch.toml").read_text(encoding="utf-8"))
    assert (table["lead"], table["sites"]) == ("rush", ["rush", "nu", "uchicago"])


def test_a_failure_on_the_way_leaves_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The folder appears whole or not at all."""
    stuck = tmp_path / "templates" / "common"
    stuck.mkdir(parents=True)
    (tmp_path / "templates" / "numpy").mkdir()
    (tmp_path / "templates" / "numpy" / "template.toml").write_text(
        'title = "x"\nmodel_ext = "npz"\nlayers = ["common"]\ndependencies = []\n[text]\n', encoding="utf-8"
    )
    (stuck / "first.txt").write_text("fine", encoding="utf-8")
    (stuck / "second.txt.tmpl").write_text("{{ nobody_knows }}", encoding="utf-8")
    monkeypatch.setattr(scaffold, "templates_dir", lambda: tmp_path / "templates")
    with pytest.raises(StitchError, match="nobody_knows"):
        render_project(tmp_path / "p", lead="rush", sites=["rush"])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["templates"]


def test_a_place_that_cannot_be_written_is_named() -> None:
    Path("file").write_text("", encoding="utf-8")
    with pytest.raises(DiskError, match="cannot be written"):
        render_project(Path("file/p"), lead="rush", sites=["rush"])


def test_formats_that_run_code_get_a_warning() -> None:
    assert [ext for ext in ("npz", "json", "csv", "safetensors", "parquet") if format_warning(ext)] == []
    assert "runs code" in format_warning("pkl")
    assert "prefer npz" in format_warning("joblib")


def test_run_scripts_suit_their_systems() -> None:
    project = render_project(Path("p"), lead="rush", sites=["rush"]).root
    batch = (project / "run_stitch.bat").read_bytes()
    assert b"chcp 65001" in batch
    assert b"PYTHONIOENCODING" in batch
    assert b"uv run clif-stitch run" in batch
    assert b"pause" in batch  # the window stays open after an error
    assert batch.count(b"\n") == batch.count(b"\r\n")
    assert b"uv run clif-stitch run" in (project / "run_stitch.ps1").read_bytes()
    shell = project / "run_stitch.sh"
    assert shell.stat().st_mode & stat.S_IXUSR
    subprocess.run(["sh", "-n", str(shell)], check=True)


def test_the_shell_script_runs_in_its_own_folder_and_passes_on_the_exit_code(tmp_path: Path) -> None:
    project = render_project(Path("p q"), lead="rush", sites=["rush"]).root
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "uv").write_text('#!/bin/sh\necho "$PWD|$*"\nexit 21\n', encoding="utf-8")
    (programs / "uv").chmod(0o755)
    command = [str(project / "run_stitch.sh"), "--take-over"]
    done = subprocess.run(
        command,
        cwd="/",
        env={"PATH": f"{programs}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout.strip()) == (21, f"{project}|run clif-stitch run --take-over")


def test_it_works_as_a_wheel_lays_it_out(tmp_path: Path) -> None:
    """The templates inside the package and none beside it; .ci/run installs the real wheel."""
    installed = tmp_path / "installed"
    shutil.copytree(ROOT / "stitch", installed / "stitch")
    shutil.copytree(ROOT / "templates", installed / "stitch" / "_templates")
    code = (
        "from pathlib import Path; import stitch; from stitch.cli.scaffold import *; "
        "print(Path(stitch.__file__).parents[1]); print(templates_dir()); "
        "[render_project(Path(t), lead='rush', sites=['rush'], template=t) for t in TEMPLATES]"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={"PYTHONPATH": str(installed), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [str(installed), str(installed / "stitch" / "_templates")]
    for template in TEMPLATES:
        here = render_project(tmp_path / "here" / template, lead="rush", sites=["rush"], template=template)
        there = tmp_path / template
        assert {n: (there / n).read_bytes() for n in here.files} == {
            n: (here.root / n).read_bytes() for n in here.files
        }


def test_a_checkout_uses_the_templates_at_its_top() -> None:
    assert templates_dir() == ROOT / "templates"


def test_git_ignores_what_is_private_or_holds_a_token(tmp_path: Path) -> None:
    assert init("icu", *ASKED) == 0
    subprocess.run(["git", "init", "-q"], cwd=tmp_path / "icu", check=True)
    private = [".env", ".env.txt", "config/config.json", "kits/nu.env", "kits/nu.md", "data/x.parquet"]
    done = subprocess.run(
        ["git", "check-ignore", *private],
        cwd=tmp_path / "icu",
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.stdout.split() == private
