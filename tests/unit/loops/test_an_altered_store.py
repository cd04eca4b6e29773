"""Forgeries that are whole in themselves: every hash right, and not what the run's record says (law 2).

Somebody with a token to write puts another model under a published name, with a seal that fits it.
The chain, the end marker and the verdict tell; no hook may open it.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from stitch import layout
from stitch.client import Client, Setup
from stitch.config.hooks import Hooks
from stitch.errors import HookFailed, ProtocolError
from stitch.hooks.inline import FunctionRunner
from stitch.layout import PassRef
from stitch.loops.lead import Lead
from stitch.loops.local import Local
from stitch.store.lanes import Lanes
from stitch.wire import Done, Seal
from tests.unit.loops.actors import SITES, Actors, Loop, finish

FORGED = b"another model"


class Run:
    """A run of two passes, its actors, and somebody who alters the store."""

    def __init__(self, folder: Path) -> None:
        self.actors = Actors(folder)
        hooks = Hooks(model_ext="txt", evaluate="code/train.py:evaluate")
        self.clients = {site: self.actors.client(site, num_passes=2, hooks=hooks)[0] for site in SITES}
        self.hooks: list[str] = []  # every hook that ran
        self.aggregation_works = True
        for site in SITES:
            self.restart(site)

    def restart(self, site: str) -> Client:
        """A new process of a site, over the mirror that the last one left."""
        before = self.clients[site]
        before.close()
        runner = FunctionRunner(
            {"train": self._train, "aggregate": self._aggregate, "evaluate": self._evaluate}
        )
        self.clients[site] = Client(before.settings, Setup(lanes=before.lanes, runner=runner))
        return self.clients[site]

    def loops(self) -> list[Loop]:
        return [Lead(self.clients["rush"]), *(Local(client) for client in self.clients.values())]

    def until(self, path: str) -> None:
        """Turn after turn, until the key is in the store."""
        loops = self.loops()
        for turn in range(100):
            if self.actors.inner.stat(f"trial/{path}") is not None:
                return
            loops[turn % len(loops)].step()
        raise AssertionError(f"{path} does not come")

    def seal(self, ref: PassRef) -> Seal:
        return Seal.parse(self._read(ref.seal), source=ref.seal)

    def forge(self, ref: PassRef, changes: Mapping[str, Any], *, model: bytes = FORGED) -> None:
        """Another model with a seal that fits it, and these claims."""
        sha256 = hashlib.sha256(model).hexdigest()
        fields = {
            "model_file": layout.stored_name("model", sha256, ext="txt"),
            "model_sha256": sha256,
            "model_bytes": len(model),
        }
        self.write(ref.model(sha256, "txt"), model)
        self.write(ref.seal, self.seal(ref).model_copy(update={**fields, **changes}).dump())

    def write(self, path: str, data: bytes) -> None:
        Lanes("trial", {layout.lane_of(path): self.actors.inner}, {}).write(path, data, mode="replace")

    def refuses(self, loop: Loop, match: str) -> None:
        """The loop's turn ends with that error, again and again, and runs no hook."""
        self.hooks.clear()
        for _ in range(2):
            with pytest.raises(ProtocolError, match=match):
                loop.step()
        assert self.hooks == []

    def close(self) -> None:
        for client in self.clients.values():
            client.close()

    def _read(self, path: str) -> bytes:
        to = self.actors.folder / "looked-at"
        self.actors.inner.pull(f"trial/{path}", to)
        return to.read_bytes()

    def _train(self, *, out_path: Path, data_dir: Path, **given: object) -> dict[str, int]:
        self.hooks.append("train")
        out_path.write_text(f"{data_dir} {given['pass_id']}", "utf-8")
        return {"n_samples": 100}

    def _aggregate(self, *, out_path: Path, **given: object) -> dict[str, int]:
        self.hooks.append("aggregate")
        assert self.aggregation_works
        out_path.write_text(f"global {given['pass_id']}", "utf-8")
        return {}

    def _evaluate(self, **given: object) -> dict[str, int]:
        self.hooks.append("evaluate")
        return {"n_samples": 100}


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(tmp_path)


# -- the chain ---------------------------------------------------------------------------------------


def unchained(run: Run, number: int) -> None:
    """Forge a published global that continues nothing."""
    ref = PassRef(number)
    record = run.seal(ref).round
    assert record is not None
    run.forge(ref, {"round": record.model_copy(update={"prev_metrics_sha256": "f" * 64})})


@pytest.mark.parametrize("number", [0, 1])
def test_no_site_trains_from_a_global_that_does_not_continue_the_chain(run: Run, number: int) -> None:
    run.until(PassRef(number).seal)
    unchained(run, number)
    run.refuses(Local(run.restart("nu")), f"global {number} does not continue")
    run.close()


@pytest.mark.parametrize("number", [0, 1])
def test_the_lead_aggregates_nothing_upon_a_global_that_does_not_continue_the_chain(
    run: Run, number: int
) -> None:
    run.until(PassRef(number).seal)
    unchained(run, number)
    run.refuses(Lead(run.restart("rush")), f"global {number} does not continue")
    run.close()


def test_no_site_evaluates_a_final_global_that_does_not_continue_the_chain(run: Run) -> None:
    run.until(PassRef(2).seal)
    unchained(run, 2)
    run.refuses(Local(run.restart("nu")), "global 2 does not continue")
    run.close()


# -- the end -----------------------------------------------------------------------------------------


def another_marker(run: Run) -> None:
    done = Done.make(
        run_id="trial",
        final_pass=2,
        final_metrics_sha256="f" * 64,
        reason="completed",
        created_at="2026-01-01T00:00:00Z",
    )
    run.write(layout.done(), done.dump())


def another_final_global(run: Run) -> None:
    """It continues the chain as the true one did."""
    run.until(layout.done())
    run.forge(PassRef(2), {})


@pytest.mark.parametrize("alter", [another_marker, another_final_global])
@pytest.mark.parametrize("loop", [("nu", Local), ("rush", Lead)], ids=["site", "lead"])
def test_an_end_marker_that_names_another_global_ends_nothing(
    run: Run, alter: Callable[[Run], None], loop: tuple[str, Callable[[Client], Loop]]
) -> None:
    run.until(PassRef(2).seal)
    alter(run)
    site, of = loop
    run.refuses(of(run.restart(site)), "names another global 2")
    run.close()


# -- the inputs --------------------------------------------------------------------------------------


def closed_and_stopped(run: Run) -> Client:
    """The lead wrote round 1's verdict and died before it aggregated; its copy of nu's pass is lost."""
    run.aggregation_works = False
    with pytest.raises(HookFailed):
        finish(run.loops())
    run.aggregation_works = True
    lead = run.restart("rush")
    shutil.rmtree(lead.mirror.root / "sites" / "nu")
    return lead


@pytest.mark.parametrize(
    ("changes", "model"),
    [({}, FORGED), ({"n_samples": 100_000}, None), ({"metrics": {"loss": 0.1}}, None)],
    ids=["another model", "another weight", "other metrics"],
)
def test_an_input_unlike_the_verdict_is_not_aggregated(
    run: Run, changes: dict[str, object], model: bytes | None
) -> None:
    lead = closed_and_stopped(run)
    true = run.clients["nu"].mirror.sealed(PassRef(1, "nu"))
    assert true is not None
    run.forge(PassRef(1, "nu"), changes, model=model or true.model.read_bytes())
    run.refuses(Lead(lead), "not what the verdict of round 1 names")
    assert run.actors.inner.stat(f"trial/{PassRef(1).seal}") is None
    run.close()


def test_with_the_true_inputs_the_next_lead_goes_on(run: Run) -> None:
    """The forgeries above are refused for what they are, not for the crash before them."""
    lead = closed_and_stopped(run)
    assert Lead(lead).step().state == "acted"
    assert run.actors.inner.stat(f"trial/{PassRef(1).seal}") is not None
    run.close()


# -- what no round needs any more --------------------------------------------------------------------


def other_bytes(run: Run, ref: PassRef) -> None:
    seal = run.seal(ref)
    run.write(ref.model(seal.model_sha256, "txt"), b"x" * seal.model_bytes)


def other_seal(run: Run, ref: PassRef) -> None:
    run.write(ref.seal, b"{}")


@pytest.mark.parametrize("damage", [other_bytes, other_seal])
@pytest.mark.parametrize("loop", [("nu", Local), ("rush", Lead)], ids=["site", "lead"])
def test_an_old_pass_that_cannot_be_rebuilt_is_reported_and_stops_nobody(
    run: Run, damage: Callable[[Run, PassRef], None], loop: tuple[str, Callable[[Client], Loop]]
) -> None:
    """Law 2: what does not match is never delivered; and round 2 has no use for it."""
    run.until(PassRef(1).seal)
    site, of = loop
    old = PassRef(1, "nu") if site == "nu" else PassRef(0)
    client = run.restart(site)
    shutil.rmtree(client.mirror.root)
    damage(run, old)
    work = of(client)
    work.step()  # nu scores global 1
    turn = work.step()
    assert (turn.state, turn.pass_id) == (("acted", 2) if site == "nu" else ("waiting", 2))
    assert client.mirror.sealed(old) is None
    assert (
        f"pass {old.number} "
        in (client.settings.runs_dir / "run.log").read_text("utf-8").partition("warn")[2]
    )
    run.close()
