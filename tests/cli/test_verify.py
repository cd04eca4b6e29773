"""`clif-stitch verify`, as a user calls it: what holds, what does not, and bad input."""

from __future__ import annotations

import io
import json
import re
import shutil
import threading
from pathlib import Path

import pytest
from rich.console import Console

from stitch.cli.app import main
from stitch.cli.project import settings_here
from stitch.cli.proving import Prover
from stitch.errors import StoreDenied
from stitch.store import FolderStore
from tests.cli.federation import Federation, Said, snapshot


def flip(path: Path, place: int = 5) -> None:
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(bytes(data))


def model(run: Path, folder: str) -> Path:
    (found,) = (run / folder).glob("model.*.json")
    return found


def noted(said: Said) -> str:
    found = re.search(r"^SHA-256 of all sealed files.*:\n([0-9a-f]{64})$", said.out, re.MULTILINE)
    assert found is not None, said
    return found[1]


def test_a_finished_run_holds_and_fits_80_columns(once: Federation) -> None:
    said = once.nu.call("verify")
    assert said.code == 0, said
    assert said.out.isascii()
    assert max(len(line) for line in said.out.splitlines()) <= 80
    assert "run icu holds; DONE: completed" in said.out
    assert "chain, seed, verdict, 2 inputs, model" in said.out
    assert len(noted(said)) == 64


def test_json_says_what_was_proven(once: Federation) -> None:
    said = once.lead.call("verify", "--json")
    proof = json.loads(said.out)
    assert (proof["kind"], proof["holds"], proof["complete"], proof["finished"]) == (
        "stitch.proof/1",
        True,
        True,
        "completed",
    )
    assert [(one["pass_id"], one["inputs"], one["rerun"]) for one in proof["passes"]] == [
        (0, [], False),
        (1, ["nu", "rush"], False),
    ]
    assert proof["transcript_sha256"] == noted(once.nu.call("verify"))


def test_rerun_makes_the_same_bytes(once: Federation) -> None:
    said = once.nu.call("verify", "--rerun")
    assert said.code == 0, said
    assert "2 inputs, model, rerun" in said.out
    assert (once.nu.root / "runs/icu/verify/pass_001/aggregate.log").is_file()


def test_it_changes_nothing(finished: Federation) -> None:
    before = snapshot(finished.store.parent, but=("__pycache__", "runs/icu/verify"))
    for words in ((), ("--json",), ("--pass", "1"), ("--rerun",)):
        assert finished.nu.call("verify", *words).code == 0
    assert snapshot(finished.store.parent, but=("__pycache__", "runs/icu/verify")) == before


def test_a_token_that_may_only_read_suffices(
    finished: Federation, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise StoreDenied("this token may not write")

    monkeypatch.setattr(FolderStore, "push", refuse)
    monkeypatch.chdir(finished.nu.root)
    with pytest.raises(SystemExit) as end:
        main(["verify"])
    assert not end.value.code
    assert "holds" in capsys.readouterr().out


def test_in_a_terminal_it_says_how_far_it_is(once: Federation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(once.nu.root)
    screen = io.StringIO()
    out = Console(file=screen, force_terminal=True, width=80, safe_box=True)
    Prover(settings_here(stores=False), stop=threading.Event(), out=out).prove(
        only=None, rerun=False, json=False, expect=""
    )
    assert "global 1 of 1: hashing" in screen.getvalue()
    assert screen.getvalue().isascii()


def test_an_altered_model_of_a_site_is_named(finished: Federation) -> None:
    path = model(finished.run, "sites/nu/pass_001")
    flip(path, 0)
    said = finished.lead.call("verify")
    assert said.code == 33
    assert f"sites/nu/pass_001/{path.name} does not hash" in said.cause
    assert "show this line to the lead" in said.todo
    assert "1 globals hold; the first thing that does not:" in said.out


def test_with_json_the_first_thing_that_does_not_hold_is_in_the_object(finished: Federation) -> None:
    flip(model(finished.run, "global/pass_001"), 0)
    said = finished.lead.call("verify", "--json")
    assert said.code == 33
    proof = json.loads(said.out)
    assert (proof["holds"], proof["error"]["error"], proof["error"]["exit_code"]) == (
        False,
        "DigestMismatch",
        33,
    )
    assert proof["error"]["cause"].startswith("global/pass_001/model.")
    assert [one["pass_id"] for one in proof["passes"]] == [0]


def test_a_damaged_manifest_is_said_with_json_too(finished: Federation) -> None:
    (finished.run / "global/manifest.json").write_text("{", encoding="utf-8")
    said = finished.nu.call("verify", "--json")
    assert (said.code, json.loads(said.out)["error"]["error"]) == (31, "BadDocument")


def test_expect_finds_what_no_chain_covers(finished: Federation) -> None:
    before = noted(finished.nu.call("verify"))
    assert finished.nu.call("verify", "--expect", before).code == 0
    done = finished.run / "global/DONE.json"
    text = done.read_text(encoding="utf-8")
    done.write_text(re.sub(r'"created_at": "20\d\d', '"created_at": "1999', text), encoding="utf-8")
    assert finished.nu.call("verify").code == 0
    said = finished.nu.call("verify", "--expect", before)
    assert said.code == 33
    assert before in said.cause.replace("not to what was noted earlier", before)


def test_a_lying_end_marker_is_named(finished: Federation) -> None:
    done = finished.run / "global/DONE.json"
    done.write_text(
        done.read_text(encoding="utf-8").replace('"completed"', '"early_stopped"'), encoding="utf-8"
    )
    said = finished.nu.call("verify")
    assert (said.code, said.cause.split(":")[0]) == (30, "global/DONE.json")


def test_a_global_that_its_inputs_do_not_make_is_found_by_rerun(finished: Federation) -> None:
    finished.nu.hooks("/ len(models)", "/ len(models) + 1")
    assert finished.nu.call("verify").code == 0
    said = finished.nu.call("verify", "--rerun")
    assert said.code == 33
    assert "global 1 made again from its inputs has other bytes" in said.cause
    assert "check out the version that it ran" in said.todo


def test_a_hook_that_fails_in_a_rerun_keeps_its_own_exit_code(finished: Federation) -> None:
    finished.nu.hooks("    models =", '    raise KeyError("x")\n    models =')
    assert finished.nu.call("verify", "--rerun").code == 11


def test_rerun_with_other_settings_is_refused_and_they_are_named(finished: Federation) -> None:
    finished.nu.toml("num_passes = 1", "num_passes = 4")
    assert finished.nu.call("verify").code == 0
    said = finished.nu.call("verify", "--rerun")
    assert (said.code, "num_passes" in said.cause) == (2, True)


@pytest.mark.parametrize(
    ("words", "cause"),
    [
        (("--pass", "9"), "there is no global 9 in this run: its newest is 1"),
        (("--expect", "abc"), "--expect takes the 64 hex digits"),
        (("--expect", "0" * 64, "--pass", "1"), "--expect takes the 64 hex digits"),
    ],
)
def test_what_cannot_be_asked_is_refused(once: Federation, words: tuple[str, ...], cause: str) -> None:
    said = once.nu.call("verify", *words)
    assert said.code == 2
    assert said.cause.startswith(cause)


def test_before_the_lead_began_it_says_so(federation: Federation) -> None:
    said = federation.nu.call("verify")
    assert said.code == 27
    assert "its lead has not begun it here" in said.cause


def test_one_pass_hashes_that_pass_alone(finished: Federation) -> None:
    flip(model(finished.run, "global/pass_000"), 0)
    said = finished.nu.call("verify", "--pass", "1")
    assert (said.code, "global 1 of run icu holds" in said.out) == (0, True)
    assert finished.nu.call("verify", "--pass", "0").code == 33


def test_at_the_lead_the_mirror_is_proof_enough(finished: Federation) -> None:
    shutil.move(finished.store, finished.store.with_name("elsewhere"))
    said = finished.lead.call("verify", "--rerun")
    assert said.code == 0, said
    assert "read from this machine's mirror" in said.out
    assert "SHA-256 of all sealed files" not in said.out, "a mirror has not all of them"
    said = finished.lead.call("verify", "--expect", "0" * 64)
    assert (said.code, "needs every sealed file" in said.cause) == (2, True)
    flip(finished.lead.mirror / "sites/nu/pass_001/model.json", 0)
    assert finished.lead.call("verify").code == 33
    assert finished.nu.call("verify").code == 23


def test_a_lane_without_a_store_is_said_not_to_be_proven(finished: Federation) -> None:
    url = finished.store.as_posix()
    finished.nu.write(".env", f'STITCH_STORE_GLOBAL="{url}"\nSTITCH_STORE_SITE="{url}"\n')
    said = finished.nu.call("verify")
    assert said.code == 0, said
    assert "NOT checked, since no store is configured for them: rush" in said.out
    assert "SHA-256 of all sealed files" not in said.out
    assert json.loads(finished.nu.call("verify", "--json").out)["complete"] is False
    assert finished.nu.call("verify", "--rerun").code == 2
