"""The JSON contract and the CSV table, field by field."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import fields
from pathlib import Path

import pytest

from stitch.layout import PassRef, site_lane
from stitch.views import status as data
from stitch.views.export import KIND, as_csv, as_json
from tests.unit.views.tree import Tree

GOLDEN = Path(__file__).parent / "status-1.json"
PAGE = Path(__file__).parents[3] / "docs" / "status-json.md"
SHOWN = (
    data.RunStatus,
    data.Source,
    data.Beat,
    data.Failure,
    data.SiteStatus,
    data.SitePass,
    data.GlobalPass,
    data.Evaluation,
    data.Means,
    data.BestPass,
    data.PassStatus,
    data.Waiting,
    data.Finish,
    data.ConflictCopy,
)


@pytest.fixture
def tree() -> Tree:
    """A run in its second pass, with one of everything."""
    made = Tree()
    made.begin()
    made.global_(0, metrics={"loss": 0.41})
    made.term("global")
    made.beat("global", state="waiting")
    for site in ("rush", "nu"):
        made.join(site)
        made.term(site_lane(site))
        made.seal(PassRef(1, site), metrics={"auroc": 0.70, "base_auroc": 0.5})
    left_out = [{"site": "uchicago", "reason": "paused"}]
    made.global_(
        1,
        inputs=("rush", "nu"),
        round={"excluded": left_out, "train_means": {"auroc": 0.71, "base_auroc": 0.5}},
    )
    made.event("rush", 1, "evaluated", n_samples=40, metrics={"auroc": 0.72})
    made.central(1, n_samples=500, metrics={"auroc": 0.73})
    made.clock.advance(5)
    made.beat(site_lane("rush"), state="training")
    made.event("rush", 2, "started")
    made.event("nu", 2, "started")
    made.event("nu", 2, "failed", hook="train", exception="ValueError", where="train.py:31")
    made.orchestration(current_pass=2, status={"uchicago": "joined"})
    made.put("global/DONE (1).json", b"{}")
    made.put("sites/nu/lease/term-0002.json", b"?")
    del made.stores[site_lane("uchicago")]
    made.clock.advance(2.5)
    return made


def test_json_is_the_documented_contract_to_the_letter(tree: Tree) -> None:
    """Change the golden file only by adding; anything else needs stitch.status/2."""
    assert json.loads(as_json(tree.observe())) == json.loads(GOLDEN.read_text(encoding="utf-8"))


def test_json_names_its_version_first_and_is_ascii(tree: Tree) -> None:
    text = as_json(tree.observe())
    assert next(iter(json.loads(text))) == "kind"
    assert json.loads(text)["kind"] == KIND
    assert text.isascii()


@pytest.mark.parametrize("shown", SHOWN, ids=lambda c: c.__name__)
def test_every_field_is_described_in_the_docs(shown: type) -> None:
    described = PAGE.read_text(encoding="utf-8")
    missing = [f.name.rstrip("_") for f in fields(shown) if f"`{f.name.rstrip('_')}`" not in described]
    assert missing == []


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_csv_has_one_row_a_site_and_pass_and_one_a_global(tree: Tree) -> None:
    table = rows(as_csv(tree.observe()))
    assert [(row["pass"], row["lane"]) for row in table] == [
        ("0", "global"),
        ("1", "global"),
        ("1", "sites/rush"),
        ("1", "sites/nu"),
    ]
    assert [row["metric.auroc"] for row in table] == ["", "0.7", "0.7", "0.7"]
    assert [row["evaluated.auroc"] for row in table] == ["", "", "0.72", ""]
    assert [row["train_mean.auroc"] for row in table] == ["", "0.71", "", ""]
    assert [row["central.auroc"] for row in table] == ["", "0.73", "", ""]
    assert [row["evaluation_mean.auroc"] for row in table] == ["", "0.72", "", ""]
    assert [row["used_by"] for row in table] == ["", "", "1", "1"]
    assert [row["base_pass"] for row in table] == ["", "", "0", "0"]


def test_csv_keeps_a_score_of_a_global_under_which_the_site_sealed_nothing(tree: Tree) -> None:
    tree.event("rush", 0, "evaluated", n_samples=40, metrics={"auroc": 0.5})
    row = rows(as_csv(tree.observe()))[1]
    assert (row["pass"], row["lane"], row["n_samples"], row["evaluated.auroc"]) == (
        "0",
        "sites/rush",
        "",
        "0.5",
    )


def test_csv_of_an_empty_run_is_its_header() -> None:
    assert as_csv(Tree().observe()).count("\n") == 1
