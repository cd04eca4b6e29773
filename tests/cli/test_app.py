"""The command line as a whole: help, version, and what each kind of error becomes."""

from __future__ import annotations

import re
import stat
import sys
from pathlib import Path
from typing import NoReturn

import pytest
import typer

from stitch.cli import app as cli
from stitch.errors import ConfigError, HookFailed, StoreUnavailable
from stitch.version import __version__
from tests.cli.federation import Federation

VERBS = (
    *("init", "setup", "doctor", "provision", "run", "step", "try", "status", "log", "demo", "end", "sites"),
    *("verify", "audit", "commitment", "replay", "outbox", "carry", "keys", "privacy"),
)
INNER = (
    *(("outbox", "show"), ("outbox", "approve"), ("outbox", "refuse"), ("carry", "out"), ("carry", "in")),
    *(("sites", "add"), ("sites", "drop"), ("sites", "pause"), ("sites", "resume"), ("sites", "redo")),
)


def call(*args: str) -> int:
    """The exit code of a command that runs in this process."""
    with pytest.raises(SystemExit) as end:
        cli.main(args)
    return int(end.value.code or 0)


def test_the_version_is_the_distributions(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("--version") == 0
    assert capsys.readouterr().out == f"clif-stitch {__version__}\n"


@pytest.mark.parametrize(
    "words", [(), *((verb,) for verb in VERBS), *INNER], ids=lambda words: "".join(words) or "all"
)
def test_help_is_ascii_and_fits_80_columns(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(*words, "--help") == 0
    text = capsys.readouterr().out
    assert text.isascii()
    assert max(len(line) for line in text.splitlines()) <= 80


def test_help_lists_every_verb_with_a_whole_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    call("--help")
    listed = described(capsys.readouterr().out)
    assert set(listed) == set(VERBS)
    for verb, said in listed.items():
        call(verb, "--help")
        whole = " ".join(capsys.readouterr().out.split())
        assert len(said.split()) >= 4, verb
        assert said in whole, verb  # not cut: each verb's own help begins with it


@pytest.mark.parametrize("group", ["sites", "outbox", "carry", "keys", "privacy"])
def test_the_commands_of_a_group_are_described_whole(group: str, capsys: pytest.CaptureFixture[str]) -> None:
    call(group, "--help")
    listed = described(capsys.readouterr().out)
    assert {verb for first, verb in INNER if first == group} <= set(listed)
    assert [said for said in listed.values() if not said.endswith(".") or said.endswith("...")] == []


def described(text: str) -> dict[str, str]:
    """The commands that a help page lists, each with what is said of it, its lines joined."""
    listed: dict[str, str] = {}
    name = ""
    for line in text.partition("Commands:")[2].splitlines():
        if found := re.match(r"  (\S+)\s+(\S.*)", line):
            name, listed[found[1]] = found[1], found[2]
        elif line.strip():
            listed[name] += f" {line.strip()}"
    return listed


@pytest.mark.parametrize(
    "words", [("fly",), ("run", "--fast"), ("demo", "--passes", "0"), ("log", "--pass", "x")]
)
def test_a_mistyped_command_exits_2_and_names_it(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(*words) == 2
    assert "Error: " in capsys.readouterr().err


@pytest.mark.parametrize("verb", ["run", "step", "status", "log"])
def test_outside_a_project_every_verb_says_what_to_do(
    verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert call(verb) == 2
    cause, todo = capsys.readouterr().err.splitlines()
    assert cause.startswith("error: there is no stitch.toml in ")
    assert todo == "do:    Run this in the project folder, or make one: `clif-stitch init`."


def _raise(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    """An application whose one command raises."""

    def fail() -> NoReturn:
        raise error

    broken = typer.Typer(pretty_exceptions_enable=False, rich_markup_mode=None)
    broken.command()(fail)
    monkeypatch.setattr(cli, "app", broken)


def test_an_error_of_ours_is_two_lines_and_its_exit_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _raise(monkeypatch, HookFailed("the train hook\nraised caf\xe9", hint="Look at ?sv=1&sig=abcdefgh"))
    assert call() == 11
    assert capsys.readouterr().err == (
        "error: the train hook raised caf\\xe9\ndo:    Look at ?sv=1&sig=***\n"
    )


def test_a_defect_is_one_line_and_its_traceback_goes_to_runs(
    federation: Federation, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(federation.lead.root)
    _raise(monkeypatch, ZeroDivisionError("at https://x.example/c?sv=1&sig=abcdefgh"))
    assert call() == 70
    cause, todo = capsys.readouterr().err.splitlines()
    assert cause.startswith("error: a defect of clif-stitch: ZeroDivisionError")
    (kept,) = (federation.lead.root / "runs").glob("crash-*.txt")
    assert str(kept) in todo
    text = kept.read_text(encoding="utf-8")
    assert "in fail" in text
    assert "abcdefgh" not in cause + todo + text


def test_an_error_that_is_no_hooks_leaves_its_traceback_in_runs(
    federation: Federation, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(federation.lead.root)
    kept = federation.lead.root / "runs" / "last_error.txt"
    for error in (ConfigError("a setting"), HookFailed("the hook")):  # theirs say more elsewhere
        _raise(monkeypatch, error)
        assert call() == error.exit_code
        assert not kept.exists()
    for text in ("the first", "another one at https://x.example/c?sv=1&sig=abcdefgh"):
        _raise(monkeypatch, StoreUnavailable(text))
        assert call() == 21
    lines = kept.read_text(encoding="utf-8").splitlines()
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ Traceback .*", lines[0])
    assert any(line.endswith("in fail") for line in lines)
    assert lines[-1] == "stitch.errors.StoreUnavailable: another one at https://x.example/c?sv=1&sig=***"
    assert "Traceback" not in capsys.readouterr().err


def test_a_disk_that_refuses_the_traceback_does_not_hide_the_error(
    federation: Federation, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(federation.lead.root)
    (federation.lead.root / "runs").write_text("no folder", encoding="utf-8")
    _raise(monkeypatch, StoreUnavailable("the store does not answer"))
    assert call() == 21
    assert capsys.readouterr().err.startswith("error: the store does not answer\ndo:    ")


def test_outside_a_project_the_traceback_goes_to_the_temporary_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    _raise(monkeypatch, StoreUnavailable("x"))
    assert call() == 21
    _raise(monkeypatch, KeyError("x"))
    assert call() == 70
    (kept,) = (tmp_path / "temporary").glob("crash-*.txt")
    assert str(kept) in capsys.readouterr().err
    assert sys.platform == "win32" or stat.S_IMODE(kept.stat().st_mode) == 0o600, "others read there too"
    assert not (tmp_path / "runs").exists()


def test_ctrl_c_before_anything_began_exits_130(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted() -> NoReturn:
        raise KeyboardInterrupt

    broken = typer.Typer(pretty_exceptions_enable=False, rich_markup_mode=None)
    broken.command()(interrupted)
    monkeypatch.setattr(cli, "app", broken)
    assert call() == 130
