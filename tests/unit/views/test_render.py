"""What a person sees at 80 columns."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest

from stitch.layout import PassRef, site_lane
from stitch.views.render import console, render
from stitch.views.status import Beat, BestPass, RunStatus, Source
from stitch.views.words import names, number, plain, rate, size, span
from tests.unit.views.tree import SITES, Tree


def screen(status: RunStatus, *, width: int = 80) -> str:
    text = io.StringIO()
    target = console(text)
    target.width = width
    target.print(render(status))
    return "\n".join(line.rstrip() for line in text.getvalue().splitlines())


@pytest.fixture
def tree() -> Tree:
    made = Tree()
    made.begin()
    made.global_(0, metrics={"loss": 0.4137})
    for site in SITES:
        made.join(site, hooks="old" if site == "uchicago" else "hooks")
        made.term(site_lane(site))
    made.seal(PassRef(1, "rush"), metrics={"auroc": 0.71204, "loss": 0.3}, n_samples=4500)
    made.event("nu", 1, "started")
    made.clock.advance(725)
    made.beat(site_lane("rush"))
    made.beat(site_lane("nu"), state="training")
    made.clock.advance(4)
    return made


def test_a_running_federation(tree: Tree) -> None:
    assert (
        screen(tree.observe())
        == """\
run icu-mortality: training, pass 1 of 5; newest global: pass 0
store memory: (2026-11-29 18:12:09Z)
lead rush waits for: nu, uchicago since 2026-11-29 18:00:00Z (12 min)

site         state      pass  last beat   note
------------------------------------------------------------------------
rush (lead)  completed     1  4 s ago
nu           training      -  4 s ago
uchicago     stalled       -  12 min ago  runs other hooks than the lead

pass  of      base     n   auroc    loss
----------------------------------------
   0  GLOBAL     -   100       -  0.4137
   1  rush       0  4500  0.7120  0.3000"""
    )


def test_a_lead_that_gave_its_lane_back_is_not_said_to_be_at_work(tree: Tree) -> None:
    beat = Beat(tree.clock.now(), 6.0, "store", "released", None, "vm", late=False)
    status = replace(tree.observe(), waiting=None, lead_beat=beat)
    assert "the lead rush is not running now (last beat 6 s ago)" in screen(status)
    working = replace(status, lead_beat=replace(beat, state="training"))
    assert "the lead rush is at work (last beat 6 s ago)" in screen(working)


def test_many_metrics_are_listed_by_name(tree: Tree) -> None:
    tree.seal(PassRef(1, "nu"), metrics={f"m{number}": number / 3 for number in range(1, 6)})
    text = screen(tree.observe(), width=120)
    assert "m1 0.3333  m2 0.6667  m3 1  m4 1.3333  m5 1.6667" in text


def test_means_over_the_sites_stand_below_theirs(tree: Tree) -> None:
    tree.seal(PassRef(1, "nu"), metrics={"auroc": 0.5}, n_samples=100)
    tree.global_(1, inputs=("rush", "nu"), metrics={}, round={"train_means": {"auroc": 0.6}})
    tree.event("rush", 1, "evaluated", n_samples=300, metrics={"auroc": 0.8})
    tree.event("nu", 1, "evaluated", n_samples=100, metrics={"auroc": 0.4})
    lines = [" ".join(line.split()) for line in screen(tree.observe()).splitlines()]
    assert lines[-4:] == [
        "1 GLOBAL - 100 - -",
        "1 at rush - 300 0.8000 -",
        "1 at nu - 100 0.4000 -",
        "1 mean of 2 - 400 0.7000 -",
    ]
    assert "1 mean of 2 - 200 0.6000 -" in lines


def test_the_best_global_is_named_below_the_headline(tree: Tree) -> None:
    best = BestPass(4, "auroc", "max", "evaluation", 0.8123, since=2, patience=5)
    assert screen(replace(tree.observe(), best=best)).splitlines()[3] == (
        "best global: pass 4, auroc 0.8123, none better in 2 of 5 since"
    )
    assert "none better in 6 since" in screen(replace(tree.observe(), best=replace(best, since=6)))
    best = replace(best, since=0, patience=None)
    assert screen(replace(tree.observe(), best=best)).splitlines()[3] == "best global: pass 4, auroc 0.8123"


def test_what_a_round_left_out_is_said(tree: Tree) -> None:
    tree.seal(PassRef(1, "nu"))
    tree.global_(1, inputs=("rush",), round={"excluded": [{"site": "nu", "reason": "n_samples is 0"}]})
    tree.seal(PassRef(2, "uchicago"), model=False)
    text = screen(tree.observe())
    assert "excluded: n_samples is 0" in text
    assert "its model is not there yet" in text


def test_nothing_is_wider_than_80_columns_or_beyond_ascii(tree: Tree) -> None:
    tree.put("sites/nu/join/0002.json", b"?" * 300)
    tree.put("global/pass_000/model (1).npz", b"x")
    tree.done(0, reason="\x1b[2J\u202eevil \u4e2d reason " * 30)
    text = screen(tree.observe())
    assert text.isascii()
    assert "\x1b" not in text
    assert max(map(len, text.splitlines())) <= 80


def test_brackets_in_a_document_are_no_markup(tree: Tree) -> None:
    tree.event("nu", 1, "failed", hook="train", exception="[red]KeyError[/red]", where="[/]")
    assert "train: [red]KeyError[/red] at [/]" in screen(tree.observe(), width=160)


def test_a_mirror_alone_says_so_and_whose_word_it_is(tree: Tree) -> None:
    tree.orchestration(current_pass=1, status={"rush": "training", "uchicago": "joined"})
    text = screen(tree.observe(source=Source("mirror", "stitch_store", "no store URL is set"), own="nu"))
    assert "read from this machine's mirror stitch_store: no store URL is set" in text
    assert "by the lead, at 18:12:09Z" in text


def test_a_finished_run_names_the_model(tree: Tree) -> None:
    digest = tree.global_(1, inputs=("rush",), final=True)
    tree.done(1)
    text = screen(tree.observe()).replace("\n", " ")
    assert "finished at 2026-11-29 18:12:09Z: completed; final global: pass 1, SHA-256" in text
    assert digest in text


def test_a_dead_lead_is_named_with_what_to_do(tree: Tree) -> None:
    tree.term("global")
    tree.beat("global")
    tree.clock.advance(3600)
    assert "has not beaten for 60 min: re-run it at rush" in screen(tree.observe(), width=120)


def test_an_empty_store_says_that_the_lead_has_not_begun() -> None:
    assert "the lead rush has not begun" in screen(Tree().observe())


def test_only_the_newest_passes_are_listed(tree: Tree) -> None:
    for item in range(1, 12):
        tree.global_(item)
    listed = [line[:4].strip() for line in screen(tree.observe()).splitlines() if "GLOBAL" in line]
    assert listed == ["9", "10", "11"]


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        (span(4.4), "4 s"),
        (span(100), "2 min"),
        (span(7200), "2 h"),
        (span(200_000), "2 d"),
        (size(680), "680 B"),
        (size(4_200_000), "4.2 MB"),
        (size(2_500_000_000), "2.5 GB"),
        (rate(4_200_000, 0.3), "14.0 MB/s"),
        (rate(10, 0), ""),
        (number(0.71204), "0.7120"),
        (number(7050.0), "7050"),
        (number(1.5e-9), "1.5e-09"),
        (plain("a\nb\x1b[31m\u00e9"), "a?b?[31m?"),
        (plain("x" * 300, most=10), "xxxxxxx..."),
        (names(("a", "b", "c"), most=2), "a, b and 1 more"),
    ],
)
def test_words(said: str, shown: str) -> None:
    assert said == shown
