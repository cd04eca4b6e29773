"""What a person at a site answers to `setup`, and the two files it leaves."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from stitch.cli.doctor import doctor
from stitch.cli.setup import setup
from stitch.cli.setup_site import updated_env
from stitch.config import load_settings
from stitch.errors import ConfigError

SIG = "a%2Bb%2Fc%2Bd%2Fefghijklmnopqrstuvwxyz0123456789ABC%3D"
URL = f"https://acct.blob.core.windows.net/icu?sp=rcwl&se=2099-01-01&sv=2024-11-04&sr=c&sig={SIG}"
TOML = 'run_id = "icu"\nlead = "rush"\nsites = ["rush", "nu"]\nnum_passes = 2\n'


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "project"
    (root / "code").mkdir(parents=True)
    (root / "tables").mkdir()
    (tmp_path / "store").mkdir()
    (root / "stitch.toml").write_text(TOML, encoding="utf-8")
    hook = "def train(global_path, out_path, data_dir): ...\ndef aggregate(site_dir, out_path): ...\n"
    for name in ("train", "aggregate"):
        (root / "code" / f"{name}.py").write_text(hook, encoding="utf-8")
    for name in [name for name in os.environ if name.startswith("STITCH_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(root)
    return root


def run_setup(*answers: str, kit: Path | None = None) -> Result:
    app = typer.Typer()
    app.command()(setup)
    app.command()(doctor)
    arguments = ["setup", *([str(kit)] if kit else [])]
    return CliRunner().invoke(app, arguments, input="\n".join(answers) + "\n")


def without_doctor(monkeypatch: pytest.MonkeyPatch) -> None:
    """For URLs that lead nowhere: doctor would ask the network."""
    monkeypatch.setattr("stitch.cli.setup.doctor", lambda: None)


def test_it_asks_writes_and_runs_doctor(project: Path) -> None:
    result = run_setup("NU", "tables", "../store")
    assert result.exit_code == 0, result.output
    assert "store sites/nu" in result.output
    assert json.loads((project / "config/config.json").read_text(encoding="utf-8")) == {
        "site_name": "nu",
        "data_directory": "tables",
    }
    settings = load_settings(project, {})
    assert settings.urls.site == (project.parent / "store").as_uri()
    for name in (".env", "config/config.json"):
        assert (project / name).stat().st_mode & 0o077 == 0
    assert not list(project.rglob("*.tmp"))


def test_a_second_time_empty_answers_keep_everything(project: Path) -> None:
    run_setup("nu", "tables", "../store")
    before = [(project / name).read_bytes() for name in (".env", "config/config.json")]
    result = run_setup("", "", "")
    assert result.exit_code == 0, result.output
    assert [(project / name).read_bytes() for name in (".env", "config/config.json")] == before


def test_other_keys_lines_and_spellings_are_kept(project: Path) -> None:
    site = {"site": "rush", "tables_path": "old", "timezone": "US/Central", "mine": [1]}
    (project / "clif_config.json").write_text(json.dumps(site), encoding="utf-8")
    (project / ".env.txt").write_text("\ufeff# mine\nOTHER=1\nSTITCH_STORE=../old\n", encoding="utf-8")
    result = run_setup("nu", "tables", "../store")
    assert result.exit_code == 0, result.output
    assert json.loads((project / "clif_config.json").read_text(encoding="utf-8")) == {
        **site,
        "site": "nu",
        "tables_path": "tables",
    }
    assert not (project / "config/config.json").exists()
    env = (project / ".env").read_text(encoding="utf-8")
    assert env == '# mine\nOTHER=1\nSTITCH_STORE="../store"\n'


def test_wrong_answers_are_asked_again(project: Path) -> None:
    result = run_setup("nuu", "nu", "nowhere", "tables", "https://bit.ly/3abc", "../store")
    assert result.exit_code == 0, result.output
    assert "Did you mean nu?" in result.output
    assert "'nowhere' is no folder" in result.output
    assert "a link shortener" in result.output


def test_answers_that_stay_wrong_leave_nothing_half_written(project: Path) -> None:
    result = run_setup("nu", "nowhere", "nowhere", "nowhere")
    assert isinstance(result.exception, ConfigError)
    assert not (project / ".env").exists()
    assert not (project / "config").exists()


def test_a_mangled_url_is_mended_and_never_shown(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_doctor(monkeypatch)
    result = run_setup("nu", "tables", f"<{URL.replace('?', '/').replace('&', '&amp;')}>.")
    assert result.exit_code == 0, result.output
    assert 'the missing "?"' in result.output
    assert "https://acct.blob.core.windows.net/icu" in result.output
    assert "sig" not in result.output
    assert load_settings(project, {}).urls.site == URL


def test_a_store_for_each_lane(project: Path) -> None:
    for name in ("g", "r", "n"):
        (project.parent / name).mkdir()
    result = run_setup("rush", "tables", "", "../g", "../r", "../n")
    assert result.exit_code == 0, result.output
    env = (project / ".env").read_text(encoding="utf-8")
    assert env == 'STITCH_STORE_GLOBAL="../g"\nSTITCH_STORE_SITE="../r"\nSTITCH_STORE_NU="../n"\n'
    result = run_setup("rush", "", "", "", "../store", "")
    assert result.exit_code == 0, result.output
    assert 'SITE="../store"\nSTITCH_STORE_NU="../n"' in (project / ".env").read_text(encoding="utf-8")


def test_a_kit_answers_what_the_lead_knows(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_doctor(monkeypatch)
    kit = project.parent / "nu.kit"
    lines = ["STITCH_SITE=NU", f"STITCH_STORE_GLOBAL={URL[:80]}", URL[80:], f'STITCH_STORE_SITE="{URL}"']
    lines += ["HTTPS_PROXY=http://proxy:3128", "PATH=/evil", "LD_PRELOAD=x"]
    kit.write_bytes("\r\n".join(lines).encode("utf-16"))
    result = run_setup("", "tables", kit=kit)
    assert result.exit_code == 0, result.output
    assert "PATH was left out" in result.output
    assert "Delete nu.kit" in result.output
    assert "sig" not in result.output
    settings = load_settings(project, {})
    assert (settings.site, settings.urls.global_, settings.urls.site) == ("nu", URL, URL)
    assert settings.environ["HTTPS_PROXY"] == "http://proxy:3128"
    assert not {"PATH", "LD_PRELOAD"} & set(settings.environ)


def test_a_kit_may_be_the_url_alone(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_doctor(monkeypatch)
    kit = project.parent / "url.txt"
    kit.write_text(f"{URL[:70]}\n{URL[70:]}\n", encoding="utf-8")
    assert run_setup("nu", "tables", kit=kit).exit_code == 0
    assert load_settings(project, {}).urls.heartbeat == URL


@pytest.mark.parametrize("text", ["HELLO=1\n", "STITCH_STORE=\n", "no assignment\n"])
def test_a_kit_without_a_store_is_refused(project: Path, text: str) -> None:
    kit = project.parent / "kit"
    kit.write_text(text, encoding="utf-8")
    assert isinstance(run_setup("nu", "tables", kit=kit).exception, ConfigError)
    assert not (project / ".env").exists()


def test_outside_a_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert isinstance(run_setup().exception, ConfigError)
    assert not list(tmp_path.iterdir())


def test_a_url_for_all_lanes_replaces_the_lanes_own() -> None:
    text = "A=1\nSTITCH_STORE_SITE=x\n# STITCH_STORE_GLOBAL=y\n"
    assert updated_env(text, {"STITCH_STORE": "z"}) == 'A=1\n# STITCH_STORE_GLOBAL=y\nSTITCH_STORE="z"\n'
    assert updated_env(text, {"STITCH_STORE_SITE": "z"}).startswith('A=1\nSTITCH_STORE_SITE="z"\n')
