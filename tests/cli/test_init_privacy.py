"""`clif-stitch init --epsilon`: a private project, and a word on whether its plan can hold."""

from __future__ import annotations

from pathlib import Path

import pytest

from stitch.cli import own_wheel
from stitch.cli.app import main
from stitch.client.budget import noise_of, plan_left
from stitch.config import Settings, load_settings

ASKED = ("--lead", "rush", "--sites", "rush,nu,uchicago")


def init(*words: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["init", *words])
    assert isinstance(ended.value.code, int)
    return ended.value.code


def made(folder: Path) -> Settings:
    return load_settings(folder, {}, site="nu")


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(own_wheel, "clone", lambda: None)  # as where it was installed as a package


def test_a_budget_becomes_a_table_that_holds_for_all_passes(capsys: pytest.CaptureFixture[str]) -> None:
    assert init("icu", *ASKED, "--epsilon", "200") == 0
    settings = made(Path("icu"))
    assert (settings.privacy.mode, settings.privacy.epsilon, settings.privacy.delta) == ("local", 200.0, 1e-5)
    possible, wanted = plan_left(settings, [])
    assert possible == wanted == settings.num_passes
    text = Path("icu", "stitch.toml").read_text(encoding="utf-8")
    assert text.count("[privacy]") == 1
    assert "warning" not in capsys.readouterr().out


def test_a_plan_that_its_budget_cannot_hold_is_warned_of(capsys: pytest.CaptureFixture[str]) -> None:
    assert init("icu", *ASKED, "--epsilon", "8", "--noise", "0.5") == 0
    settings = made(Path("icu"))
    assert noise_of(settings) == 0.5
    possible, wanted = plan_left(settings, [])
    assert possible < wanted
    said = capsys.readouterr().out
    assert f"noise_multiplier 0.5 permits {possible} of {wanted} passes within epsilon 8" in " ".join(
        said.split()
    )
    assert max(map(len, said.splitlines())) <= 80


def test_more_noise_than_signal_is_warned_of(capsys: pytest.CaptureFixture[str]) -> None:
    assert init("icu", *ASKED, "--epsilon", "8") == 0
    said = " ".join(capsys.readouterr().out.split())
    assert f"take noise of {noise_of(made(Path('icu'))):g} x clip" in said


@pytest.mark.parametrize(
    ("words", "cause", "todo"),
    [
        (("--epsilon", "8", "--template", "gbm"), "the template gbm are opaque", "--template numpy"),
        (("--noise", "1"), "--noise says nothing without --epsilon", "--epsilon 8"),
        (("--epsilon", "0"), "epsilon is 0", "above 0"),
        (("--epsilon", "8", "--delta", "1"), "delta is 1", "below 1"),
        (("--epsilon", "8", "--noise", "0"), "the noise multiplier is 0", "above 0"),
        (("--epsilon", "8", "--noise", "nan"), "the noise multiplier is nan", "above 0"),
    ],
)
def test_a_plan_that_makes_no_sense_makes_no_project(
    words: tuple[str, ...], cause: str, todo: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert init("icu", *ASKED, *words) == 2
    error, hint, *rest = capsys.readouterr().err.splitlines()
    assert cause in error
    assert todo in hint
    assert rest == []
    assert not Path("icu").exists()
