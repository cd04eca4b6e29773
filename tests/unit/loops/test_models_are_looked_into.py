"""The admit hook: at the site before the seal, at the lead before the verdict, once a pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from stitch import layout
from stitch.client import Client
from stitch.errors import HookFailed, HookOutput, RoundError
from stitch.hooks.inline import FunctionRunner
from stitch.layout import PassRef
from stitch.loops.lead import Lead
from stitch.loops.local import Local
from stitch.wire import Seal, Verdict
from tests.unit.loops.actors import SITES, Actors, aggregate, finish, train

Admit = Callable[..., dict[str, float]]


class Run:
    """Three sites and a lead over one store; `at` says whose settings have which admit hook."""

    def __init__(self, folder: Path) -> None:
        self.actors = Actors(folder)
        self.clients: list[Client] = []
        self.asked: list[str] = []

    def client(self, site: str, admit: Admit | None = None) -> Client:
        client, _ = self.actors.client(site, poll_seconds=30.0)
        if admit is not None:
            client.runner = FunctionRunner({"train": train, "aggregate": aggregate, "admit": admit})
            hooks = replace(client.settings.hooks, admit="code/admit.py:admit")
            client.settings = replace(client.settings, hooks=hooks)
        self.clients.append(client)
        return client

    def begin(self, admit: Admit) -> Lead:
        """The lead with this hook, global 0, and a pass of each site that has no hook."""
        lead = Lead(self.client("rush", admit))
        assert lead.step().state == "acted"
        for site in SITES:
            local = Local(self.client(site))
            while local.step().state == "acted":
                pass
        return lead

    def refuse_nu(
        self, *, model_path: Path, base_path: Path, reason_path: Path, site_id: str
    ) -> dict[str, float]:
        assert model_path.is_file()
        assert base_path.parent.name == "pass_000"
        self.asked.append(site_id)
        if site_id == "nu":
            reason_path.write_text("its weights sing: \x1b[31m'\u00e9'\nsecond line", encoding="utf-8")
        return {}


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    run = Run(tmp_path)
    yield run
    for client in run.clients:
        client.close()


def test_the_lead_leaves_out_whom_the_hook_refuses_with_its_first_line_in_plain_characters(run: Run) -> None:
    lead = run.begin(run.refuse_nu)
    assert lead.step().state == "acted"
    assert run.asked == ["nu", "rush", "uchicago"]
    stored = lead.client.documents.read(layout.verdict(1, 0), Verdict)
    assert stored is not None
    assert [one.site for one in stored.doc.inputs] == ["rush", "uchicago"]
    assert [(one.site, one.reason) for one in stored.doc.excluded] == [
        ("nu", "its weights sing: \\x1b[31m'\\xe9'")
    ]


def test_a_pass_is_looked_into_once_however_often_the_lead_looks(run: Run) -> None:
    lead = Lead(run.client("rush", run.refuse_nu))
    assert lead.step().state == "acted"
    site = Local(run.client("nu"))
    while site.step().state == "acted":
        pass
    for _ in range(5):
        assert lead.step().state == "waiting"
    assert run.asked == []  # nobody looks before the policy would close
    for name in ("rush", "uchicago"):
        site = Local(run.client(name))
        while site.step().state == "acted":
            pass
    assert lead.step().state == "acted"
    assert sorted(run.asked) == ["nu", "rush", "uchicago"]


def test_a_hook_that_is_itself_at_fault_blames_no_site(run: Run) -> None:
    def broken(*, model_path: Path, base_path: Path, reason_path: Path) -> dict[str, float]:
        raise ImportError

    lead = run.begin(broken)
    with pytest.raises(HookFailed, match="the admit hook raised ImportError"):
        lead.step()
    assert lead.client.documents.read(layout.verdict(1, 0), Verdict) is None
    assert (lead.client.settings.runs_dir / "last_error.json").is_file()


def test_a_reader_that_crashes_over_a_model_has_it_left_out(run: Run) -> None:
    def crashes(
        *, model_path: Path, base_path: Path, reason_path: Path, site_id: str
    ) -> dict[str, float]:  # what the runner says of a child that a signal ended
        if site_id == "nu":
            raise HookFailed("the admit hook was killed by SIGSEGV", hook="admit", kind="SIGSEGV")
        return {}

    lead = run.begin(crashes)
    assert lead.step().state == "acted"
    stored = lead.client.documents.read(PassRef(1).seal, Seal)
    assert stored is not None
    assert stored.doc.round is not None
    assert [(one.site, one.reason) for one in stored.doc.round.excluded] == [
        ("nu", "reading its model ended in SIGSEGV")
    ]


def test_memory_that_runs_out_is_not_the_sites_fault(run: Run) -> None:
    def killed(*, model_path: Path, base_path: Path, reason_path: Path) -> dict[str, float]:
        raise HookFailed("the admit hook was killed (SIGKILL)", hook="admit", kind="SIGKILL")

    with pytest.raises(HookFailed):
        run.begin(killed).step()


def test_a_round_with_nobody_left_is_refused_with_the_reasons(run: Run) -> None:
    def nobody(*, model_path: Path, base_path: Path, reason_path: Path, site_id: str) -> dict[str, float]:
        reason_path.write_text(f"{site_id} is no good", encoding="utf-8")
        return {}

    lead = run.begin(nobody)
    with pytest.raises(RoundError, match=r"no pass can be used \(nu: nu is no good; rush: rush is") as caught:
        lead.step()
    assert "sites redo" in caught.value.hint
    assert lead.client.documents.read(layout.verdict(1, 0), Verdict) is None
    assert lead.client.documents.read(PassRef(1).seal, Seal) is None


def test_a_site_does_not_seal_what_the_hook_refuses(run: Run) -> None:
    lead = Lead(run.client("rush"))
    assert lead.step().state == "acted"
    client = run.client("nu", run.refuse_nu)
    with pytest.raises(HookOutput, match="would not be admitted: its weights sing"):
        finish([Local(client)], turns=5)
    assert client.mirror.sealed(PassRef(1, "nu")) is None
    assert client.documents.read(PassRef(1, "nu").seal, Seal) is None
