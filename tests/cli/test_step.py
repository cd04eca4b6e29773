"""`clif-stitch step`: one turn for cron and schedulers."""

from __future__ import annotations

import signal

import pytest
from rich.console import Console

from stitch.cli.app import main
from stitch.client.journal import Note
from tests.cli.federation import Federation, Said, Site

WAITING, DONE = 3, 4


def step(site: Site) -> Said:
    return site.call("step", "--exit-code")


def test_a_site_waits_for_the_lead_to_begin(federation: Federation) -> None:
    said = step(federation.nu)
    assert said.code == WAITING
    assert said.out.splitlines()[-1].startswith("waiting: ")


def test_without_exit_code_every_good_turn_is_0(federation: Federation) -> None:
    assert federation.nu.call("step").code == 0


def test_turns_alone_bring_a_federation_to_its_end(federation: Federation) -> None:
    """As cron would: one turn each, again and again, every one a fresh process."""
    codes: list[int] = []
    for _ in range(20):
        for site in (federation.lead, federation.nu):
            said = site.process("step", "--exit-code")
            assert said.code in (0, WAITING, DONE), said
            codes.append(said.code)
        if codes[-2:] == [DONE, DONE]:
            break
    assert codes[-2:] == [DONE, DONE]
    assert codes[0] == 0
    assert (federation.run / "global" / "DONE.json").is_file()
    assert (federation.nu.mirror / "global" / "pass_001" / "model.json").is_file()


def test_a_failing_hook_ends_the_turn_with_its_code(federation: Federation) -> None:
    federation.lead.hooks("    base =", "    raise ValueError\n    base =")
    assert step(federation.lead).code == 11


class InterruptedInAPush:
    """Stands where the console's lines are printed; presses Ctrl-C when a push is under way."""

    def __init__(self, console: Console) -> None:
        self.pressed = False

    def __call__(self, note: Note) -> None:
        if note.step == "push" and note.in_flight and not self.pressed:
            self.pressed = True
            signal.raise_signal(signal.SIGINT)


def test_ctrl_c_in_a_long_transfer_is_no_defect_and_the_next_turn_goes_on(
    federation: Federation, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    federation.begin()
    federation.nu.hooks("json.dumps(base + 1)", 'json.dumps(base + 1) + " " * 3_000_000')
    with monkeypatch.context() as inside:
        inside.chdir(federation.nu.root)
        inside.setattr("stitch.cli.step.PlainLines", InterruptedInAPush)
        with pytest.raises(SystemExit) as ended:
            main(["step", "--exit-code"])
    assert ended.value.code == 130
    said = capfd.readouterr()
    assert "error:" not in said.err
    assert not list(federation.nu.root.glob("runs/crash-*"))
    assert not (federation.run / "sites/nu/pass_001/metrics.json").exists()
    again = federation.nu.call("step")
    assert again.code == 0, again
    assert " push " in again.out
    assert " train " not in again.out
    assert (federation.run / "sites/nu/pass_001/metrics.json").is_file()
