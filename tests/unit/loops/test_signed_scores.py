"""In a signed run the means rest on signed scores alone: a token to write the store steers no early stop."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stitch import layout
from stitch.config.hooks import Hooks
from stitch.errors import SignatureRefused
from stitch.hooks.inline import FunctionRunner
from stitch.layout import Event, PassRef
from stitch.wire import Evaluated, Seal
from tests.unit.loops.actors import aggregate, train
from tests.unit.loops.signed import PAIR, Run

SCORE = layout.event("nu", 0, name=Event.EVALUATED)


def evaluate(**_: Any) -> dict[str, float]:
    return {"n_samples": 100, "auroc": 0.7}


def begun(folder: Path) -> Run:
    """Global 0, and both sites' passes from it, scores included."""
    run = Run(folder)
    run.changes["hooks"] = Hooks(model_ext="txt", evaluate="code/evaluate.py:evaluate")
    for site in PAIR:
        run.start(site)
        run.clients[site] = client = run.start(site)
        client.runner = FunctionRunner({"train": train, "aggregate": aggregate, "evaluate": evaluate})
    run.begin()
    loops = run.loops()[1:]
    for _ in range(2):
        for loop in loops:
            assert loop.step().state == "acted"
    return run


def closed(run: Run) -> Evaluated:
    """What global 1 says of the scores of global 0."""
    lead = run.loops()[0]
    while PassRef(1).seal not in run.paths():
        lead.step()
    record = Seal.parse(run.read(PassRef(1).seal), source="seal").round
    assert record is not None
    assert record.evaluated is not None
    for client in run.clients.values():
        client.close()
    return record.evaluated


def test_signed_scores_count_and_are_proven(tmp_path: Path) -> None:
    run = begun(tmp_path)
    assert [one.site for one in closed(run).sites] == ["nu", "rush"]
    assert sum(path.startswith(SCORE.removesuffix("json")) for path in run.paths()) == 2
    run.prove()


def test_a_score_that_another_wrote_does_not_count(tmp_path: Path) -> None:
    run = begun(tmp_path)
    raw = json.loads(run.read(SCORE))
    raw["metrics"]["auroc"] = 0.99
    run.put(SCORE, json.dumps(raw).encode())
    found = closed(run)
    assert [one.site for one in found.sites] == ["rush"]
    assert found.means == {"auroc": 0.7}


def test_a_score_that_counted_and_lost_its_signature_is_noticed(tmp_path: Path) -> None:
    run = begun(tmp_path)
    closed(run)
    beside = SCORE.removesuffix("json")
    run.remove(next(path for path in run.paths() if path.startswith(beside) and path != SCORE))
    with pytest.raises(SignatureRefused, match=r"evaluated\.json is not signed"):
        run.prove()
