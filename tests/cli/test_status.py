"""`clif-stitch status`, as a user calls it: on the store, on a mirror alone, for machines, watching."""

from __future__ import annotations

import csv
import io
import json
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from stitch.cli.app import main
from stitch.errors import StoreDenied
from stitch.store import FolderStore
from tests.cli.federation import Federation, Site, await_that


def test_before_the_lead_began_everybody_was_never_seen(federation: Federation) -> None:
    said = federation.nu.call("status")
    assert said.code == 0
    assert "the lead rush has not begun" in said.out
    assert said.out.count("never seen") == 2


def test_a_finished_run_fits_80_columns(once: Federation) -> None:
    said = once.nu.call("status")
    assert said.code == 0
    assert said.out.isascii()
    assert max(len(line) for line in said.out.splitlines()) <= 80
    assert "run icu: complete, pass 1 of 1; newest global: pass 1" in said.out
    assert said.out.count("completed") >= 3


def test_json_and_csv_are_for_machines(once: Federation) -> None:
    status = json.loads(once.nu.call("status", "--json").out)
    assert (status["kind"], status["phase"], status["source"]["kind"]) == (
        "stitch.status/1",
        "complete",
        "store",
    )
    assert [site["state"] for site in status["sites"]] == ["completed", "completed"]
    rows = list(csv.DictReader(io.StringIO(once.nu.call("status", "--csv").out)))
    assert [(row["pass"], row["lane"]) for row in rows] == [
        ("0", "global"),
        ("1", "global"),
        ("1", "sites/rush"),
        ("1", "sites/nu"),
    ]


def test_while_the_lead_waits_its_view_says_for_whom(federation: Federation) -> None:
    with federation.lead.running("run"):
        federation.await_key("sites/rush/pass_001/metrics.json")
        status = json.loads(federation.lead.call("status", "--json").out)
    assert status["waiting"]["sites"] == ["nu"]
    assert status["waiting"]["seconds"] >= 0
    assert [site["state"] for site in status["sites"]] == ["completed", "never seen"]
    assert status["lead_beat"]["late"] is False


def test_a_site_that_was_killed_shows_as_stalled(federation: Federation) -> None:
    federation.nu.hooks("    base =", "    import time\n    time.sleep(600)\n    base =")
    for each in (federation.lead, federation.nu):
        each.toml("heartbeat_minutes = 0.05", "heartbeat_minutes = 0.02")
    with federation.lead.running("run"), federation.nu.running("run") as site:
        federation.await_key("sites/nu/events/pass_001.started.json")
        site.process.kill()

        def state() -> str:
            sites = json.loads(federation.lead.call("status", "--json").out)["sites"]
            return str(next(one["state"] for one in sites if one["site"] == "nu"))

        await_that(lambda: state() == "stalled", "nu stalled")


def test_a_failed_hook_shows_as_failed_and_where(federation: Federation) -> None:
    federation.nu.hooks("    base =", '    raise KeyError("mrn 12345")\n    base =')
    with federation.lead.running("run"):
        assert federation.nu.call("run").code == 11
        said = federation.lead.call("status", "--json")
    nu = json.loads(said.out)["sites"][1]
    assert (nu["state"], nu["reason"]) == ("failed", "train: KeyError at code/hooks.py:7")
    assert "12345" not in said.out


@pytest.mark.parametrize("gone", ["store", "url"])
def test_on_a_mirror_alone_it_says_so_and_reads_it(finished: Federation, gone: str) -> None:
    if gone == "store":
        shutil.move(finished.store, finished.store.with_name("elsewhere"))
    else:
        (finished.nu.root / ".env").unlink()
    said = finished.nu.call("status")
    assert said.code == 0
    assert "read from this machine's mirror" in " ".join(said.out.split())  # a long path wraps the line
    status = json.loads(finished.nu.call("status", "--json").out)
    assert status["source"]["kind"] == "mirror"
    assert status["source"]["reason"] != ""
    assert (status["phase"], status["newest_global"]) == ("complete", 1)
    assert {site["site"]: site["state"] for site in status["sites"]} == {
        "rush": "completed",
        "nu": "completed",
    }


def test_without_store_and_mirror_the_error_is_the_stores(federation: Federation) -> None:
    (federation.nu.root / ".env").unlink()
    said = federation.nu.call("status")
    assert said.code == 2
    assert "no store URL is set" in said.cause


def test_a_token_that_may_only_read_suffices(
    finished: Federation, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise StoreDenied("this token may not write")

    monkeypatch.setattr(FolderStore, "push", refuse)
    assert "complete" in _here(finished.nu, monkeypatch, capsys)


def test_it_changes_nothing_anywhere(finished: Federation) -> None:
    before = dict(_files(finished.store.parent))
    for words in ((), ("--json",), ("--csv",)):
        finished.nu.call("status", *words)
    assert dict(_files(finished.store.parent)) == before


def _files(folder: Path) -> Iterator[tuple[str, int]]:
    for path in sorted(folder.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            yield str(path), path.stat().st_mtime_ns


def _here(site: Site, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
    monkeypatch.chdir(site.root)
    with pytest.raises(SystemExit) as end:
        main(["status"])
    assert not end.value.code
    return capsys.readouterr().out


def test_a_damaged_document_is_a_line_and_no_crash(finished: Federation) -> None:
    (finished.run / "sites/nu/pass_001/metrics.json").write_text('{"kind": 7', encoding="utf-8")
    said = finished.lead.call("status")
    assert said.code == 0
    assert "unreadable" in said.out
    assert "sites/nu/pass_001/metrics.json" in said.out


def test_a_conflict_copy_is_reported(finished: Federation) -> None:
    copy = finished.run / "global" / "DONE (conflicted copy).json"
    copy.write_text("{}", encoding="utf-8")
    assert "two machines wrote one key" in finished.lead.call("status").out.replace("\n", " ")


def test_json_csv_and_watch_exclude_one_another(federation: Federation) -> None:
    assert federation.nu.call("status", "--json", "--watch").code == 2


@pytest.mark.skipif(sys.platform != "linux", reason="asks /proc whether the handlers are installed")
def test_watch_shows_the_run_until_ctrl_c(finished: Federation) -> None:
    with finished.nu.running("status", "--watch") as watching:
        await_that(lambda: _handles_sigterm(watching.process.pid), "its handlers", or_end=watching)
        watching.process.send_signal(signal.SIGINT)
        said = watching.said()
    assert said.code == 0
    assert "run icu: complete" in said.out


def _handles_sigterm(pid: int) -> bool:
    """Whether the process has installed its handlers yet."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    caught = next(int(line.split()[1], 16) for line in lines if line.startswith("SigCgt:"))
    return bool(caught & (1 << (signal.SIGTERM - 1)))
