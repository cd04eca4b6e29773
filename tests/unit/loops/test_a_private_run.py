"""A run with `[privacy]`: what leaves was clipped, noised and charged first, or nothing leaves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

from stitch.config.compression import Compression
from stitch.config.hooks import Hooks
from stitch.config.privacy import CENTRAL, Privacy
from stitch.errors import EgressRefused, HookFailed, PrivacyBudgetExceeded, PrivacyError, TransformDegenerate
from stitch.hooks import check_spec
from stitch.layout import PassRef
from stitch.learning.tensors import read_model, write_model
from stitch.proof.transcript import Transcript
from stitch.proof.verify import Verification
from stitch.proof.workbench import Workbench
from stitch.rounds.accountant import Budget
from stitch.store.memory import MemoryStore
from stitch.testing.faulty import Crashed, FaultyStore, once
from stitch.views.proof import Proof
from tests.unit.loops.private import LOCAL, SHAPE, STEP, PrivateRun

SPECS = [
    CENTRAL,
    *(f"stitch.privacy.{name}" for name in ("release:release", "release:inspect")),
    *(f"stitch.privacy.{name}" for name in ("compress:compress", "compress:expand")),
]
COUNT = float(np.prod(SHAPE))
OPEN = Privacy(groups=("w", "steps"))


@pytest.fixture
def runs() -> Iterator[list[PrivateRun]]:
    built: list[PrivateRun] = []
    yield built
    for run in built:
        run.close()


def made(runs: list[PrivateRun], *args: Any, **options: Any) -> PrivateRun:
    runs.append(PrivateRun(*args, **options))
    return runs[-1]


def test_every_release_has_its_noise_and_is_charged_once(tmp_path: Path, runs: list[PrivateRun]) -> None:
    run = made(runs, tmp_path)
    run.finish(run.loops())
    for site, step in STEP.items():
        seals = [run.seal(number, site) for number in (1, 2)]
        assert [seal.transforms for seal in seals] == [("clip:1", "gaussian:2")] * 2
        assert [one.release_sha256 for one in run.releases(site)] == [seal.model_sha256 for seal in seals]
        assert [(one.run, one.site_pass, one.sigma, one.clip) for one in run.releases(site)] == [
            ("private", 1, 2.0, 1.0),
            ("private", 2, 2.0, 1.0),
        ]
        left = run.model(1, site)["w"].astype(float) - run.model(0)["w"]
        assert left.std() == pytest.approx(2.0, rel=0.1)
        assert abs(left.mean() - step) < 5 * 2.0 / COUNT**0.5
        assert run.model(1, site)["steps"] == run.model(0)["steps"]


def test_the_start_sees_no_data_and_the_aggregation_none_of_the_leads(
    tmp_path: Path, runs: list[PrivateRun]
) -> None:
    run = made(runs, tmp_path)
    run.finish(run.loops())
    first = next(one for one in run.given if one["hook"] == "train" and one["pass"] == 0)
    assert first["data_dir"] != tmp_path / "rush" / "data"
    assert "site" not in first["config"]
    later = next(one for one in run.given if one["hook"] == "train" and one["pass"] == 1)
    assert later["data_dir"].parent.parent == tmp_path
    for given in (one for one in run.given if one["hook"] == "aggregate"):
        assert "data_dir" not in given
        assert "site" not in given["config"]


def test_a_budget_that_would_be_exceeded_stops_the_site_before_it_trains(
    tmp_path: Path, runs: list[PrivateRun]
) -> None:
    """Scenario 14: two releases fit, the third does not; global 2 stands, nothing is charged for it."""
    assert Budget(LOCAL.epsilon, LOCAL.delta).passes(1.0, most=9) == 2
    run = made(runs, tmp_path, privacy=replace(LOCAL, noise_multiplier=1.0), num_passes=3)
    loops = run.loops()
    with pytest.raises(PrivacyBudgetExceeded) as it:
        run.finish(loops)
    assert str(it.value).startswith("one more pass would spend epsilon 8.385 of 8: 2 releases of data set")
    assert it.value.exit_code == 38
    assert run.seal(2).pass_id == 2
    assert run.trained[-1].endswith(" 2")
    assert run.paths("sites/rush/pass_003") == []
    assert run.failed("rush", 3).exception == "PrivacyBudgetExceeded"
    assert len(run.releases("rush")) == 2


def test_the_budget_belongs_to_the_data_not_to_the_run(tmp_path: Path, runs: list[PrivateRun]) -> None:
    tight = replace(LOCAL, noise_multiplier=1.0)
    first = made(runs, tmp_path, privacy=tight)
    first.finish(first.loops())
    first.close()
    second = made(runs, tmp_path, privacy=tight, run_id="private-2", num_passes=1)
    with pytest.raises(PrivacyBudgetExceeded, match="2 releases of data set default"):
        second.finish(second.loops())
    other = made(runs, tmp_path, privacy=replace(tight, dataset="other"), run_id="private-3", num_passes=1)
    other.finish(other.loops())
    assert len(other.releases("nu")) == 1


def test_a_release_that_was_charged_and_not_sent_is_sent_as_it_is(
    tmp_path: Path, runs: list[PrivateRun], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Scenario 15 in one process: the store goes away between charge and upload (with SIGKILL: tests/e2e)."""
    run = made(runs, tmp_path, num_passes=1)
    loops = run.loops()
    for loop in loops[:2]:
        loop.step()
    monkeypatch.setattr(run.clients["nu"].passes, "push", _lost)
    with pytest.raises(ConnectionError):
        loops[2].step()
    [charged] = run.releases("nu")
    assert run.paths("sites/nu/pass_001") == []
    run.finish([*loops[:2], *run.loops("nu"), *loops[3:]])
    assert run.seal(1, "nu").model_sha256 == charged.release_sha256
    assert run.releases("nu") == [charged]
    assert run.trained.count("nu 1") == 1


@pytest.mark.parametrize("loss", ["deleted", "rolled back", "edited"])
def test_a_journal_that_knows_less_than_was_published_is_refused(
    tmp_path: Path, runs: list[PrivateRun], loss: str
) -> None:
    """Scenario 16, also with the mirror gone, where the store alone tells what was published."""
    run = made(runs, tmp_path, num_passes=3)
    loops = run.loops()
    for _ in range(40):
        for loop in loops:
            loop.step()
        if len(run.releases("nu")) == 2:
            break
    file = tmp_path / "nu" / "privacy" / "default.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    if loss == "deleted":
        file.unlink()
    elif loss == "rolled back":
        file.write_bytes(lines[0])
    else:
        file.write_bytes(b"".join(lines).replace(b'"sigma": 2.0', b'"sigma": 9.0', 1))
    before = run.paths("sites/nu/pass_")
    wanted = {"deleted": "is missing", "rolled back": "lacks 1 of", "edited": "altered or damaged at line"}
    for mirror in ("whole", "gone"):
        if mirror == "gone":
            (tmp_path / "nu" / "stitch_store").rename(tmp_path / "away")
        [again] = run.loops("nu")
        with pytest.raises(PrivacyError, match=wanted[loss]) as it:
            again.step()
        assert it.value.exit_code == 37
        assert run.paths("sites/nu/pass_") == before


def test_a_model_that_is_up_without_its_seal_was_told_as_well(tmp_path: Path, runs: list[PrivateRun]) -> None:
    """The machine is lost between model and seal; another one, with a new journal, may not begin anew."""
    died = once("crash_after", verb="push", containing="/sites/nu/pass_001/model")
    run = made(runs, tmp_path, store=FaultyStore(MemoryStore(), died), num_passes=1)
    with pytest.raises(Crashed):
        run.finish(run.loops())
    [told], [charged] = run.paths("sites/nu/pass_"), run.releases("nu")
    assert charged.release_sha256[:12] in told
    for folder in ("privacy", "stitch_store"):
        (tmp_path / "nu" / folder).rename(tmp_path / folder)
    [elsewhere] = run.loops("nu")
    with pytest.raises(PrivacyError, match="is missing"):
        elsewhere.step()
    assert run.paths("sites/nu/pass_") == [told]
    (tmp_path / "privacy").rename(tmp_path / "nu" / "privacy")
    run.finish(run.loops())
    assert len(run.releases("nu")) == 2, "trained anew, told anew, and charged"
    assert len(run.paths("sites/nu/pass_001/model")) == 2


def test_a_tensor_outside_the_groups_stops_the_pass_and_no_byte_leaves(
    tmp_path: Path, runs: list[PrivateRun]
) -> None:
    """Scenario 13, in a run that has no noise at all, with the add-on in a child process."""

    def train(global_path: Path | None, out_path: Path, **given: Any) -> dict[str, Any]:
        head = {} if global_path is None else {"head.bias": np.ones(2)}
        write_model(out_path, {"encoder.w": np.zeros(3), **head})
        return {"n_samples": 100}

    functions = {"train": train, "release": None}
    run = made(runs, tmp_path, privacy=Privacy(groups=("encoder.",)), functions=functions)
    loops = run.loops()
    with pytest.raises(EgressRefused, match=r"'head\.bias' is in none of the groups") as it:
        run.finish(loops)
    assert it.value.exit_code == 36
    assert run.failed("rush", 1).exception == "EgressRefused"
    assert not [path for path in run.paths("sites/") if "/pass_001/" in path]
    assert run.clients["rush"].mirror.sealed(PassRef(1, "rush")) is None


def test_a_filter_that_degenerates_releases_nothing_and_the_pass_is_trained_again(
    tmp_path: Path, runs: list[PrivateRun]
) -> None:
    """Scenario 17: a filter that leaves zeros, one that says so itself, and one that raises."""

    def zeros(model_path: Path, global_path: Path, out_path: Path) -> dict[str, Any]:
        write_model(out_path, {name: array * 0 for name, array in read_model(model_path).items()})
        return {}

    def says_so(model_path: Path, global_path: Path, out_path: Path) -> dict[str, Any]:
        raise TransformDegenerate("the two frames share no direction")

    def raises(model_path: Path, global_path: Path, out_path: Path) -> dict[str, Any]:
        raise KeyError("w")

    def aligns(model_path: Path, global_path: Path, out_path: Path) -> dict[str, Any]:
        tensors = read_model(model_path)
        write_model(out_path, {**tensors, "w": tensors["w"] + np.float32(1)})
        return {}

    private = replace(OPEN, pre_release="code/align.py:align")
    run = made(runs, tmp_path, privacy=private, num_passes=1)
    for number, (bad, error) in enumerate(
        [(zeros, TransformDegenerate), (says_so, TransformDegenerate), (raises, HookFailed)], start=1
    ):
        run.functions = {"pre_release": bad}
        loops = run.loops()
        with pytest.raises(error):
            run.finish(loops)
        assert run.trained.count("rush 1") == number
        assert not [path for path in run.paths("sites/") if "/pass_001/" in path]
    assert run.failed("rush", 1).exception == "TransformDegenerate"
    run.functions = {"pre_release": aligns}
    run.finish(run.loops())
    assert run.seal(1, "nu").transforms == ("pre_release",)
    assert run.model(1, "nu")["w"][0, 0] == pytest.approx(1 + STEP["nu"])


def test_a_transform_at_the_lead_changes_what_is_aggregated_and_nothing_that_was_sealed(
    tmp_path: Path, runs: list[PrivateRun]
) -> None:
    def halves(model_path: Path, global_path: Path, out_path: Path, site: str) -> dict[str, Any]:
        tensors = read_model(model_path)
        factor = np.float32(0.5 if site == "nu" else 1.0)
        write_model(out_path, {**tensors, "w": tensors["w"] * factor})
        return {}

    hooks = Hooks(model_ext="npz", pre_aggregate="code/lead.py:halves")
    functions = {"pre_aggregate": halves}
    run = made(runs, tmp_path, privacy=Privacy(), functions=functions, num_passes=1, hooks=hooks)
    run.finish(run.loops())
    wanted = (STEP["rush"] + STEP["nu"] / 2 + STEP["uchicago"]) / 3
    assert run.model(1)["w"][0, 0] == pytest.approx(wanted, rel=1e-5)
    assert run.model(1, "nu")["w"][0, 0] == pytest.approx(STEP["nu"], rel=1e-5)
    mirrored = run.clients["rush"].mirror.sealed(PassRef(1, "nu"))
    assert mirrored is not None


def test_noise_at_the_lead_is_added_once_and_sites_only_clip(
    tmp_path: Path, runs: list[PrivateRun], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The candidate is sealed with its noise: a lead that dies before it publishes adds no other."""
    private = replace(LOCAL, mode="central", clip=0.01, noise_multiplier=3.0)
    run = made(runs, tmp_path, privacy=private, num_passes=1)
    loops = run.loops()
    loops[0].step()
    lead = run.clients["rush"]
    monkeypatch.setattr(lead, "publish_global", _lost)
    with pytest.raises(ConnectionError):
        run.finish(loops)
    sealed = lead.mirror.sealed(PassRef(1))
    assert sealed is not None
    run.finish([*run.loops("rush"), *loops[2:]])
    assert run.seal(1).model_sha256 == sealed.seal.model_sha256
    assert run.seal(1).transforms == ("clip:0.01", "gaussian:3")
    for site in STEP:
        assert run.seal(1, site).transforms == ("clip:0.01",)
        delta = run.model(1, site)["w"].astype(float) - run.model(0)["w"]
        assert np.linalg.norm(delta) <= 0.01 * (1 + 1e-6)
        assert [one.sigma for one in run.releases(site)] == [3.0]
    told = run.model(1)["w"].astype(float) - run.model(0)["w"]
    assert told.std() == pytest.approx(3.0 * 0.01 / 3, rel=0.1)
    proof = proved(run, "rush")
    assert [(one.pass_id, one.rerun, one.noised) for one in proof.passes] == [
        (0, False, False),
        (1, False, True),
    ]


def test_a_run_with_noise_at_the_sites_can_be_made_again_by_anybody(
    tmp_path: Path, runs: list[PrivateRun]
) -> None:
    run = made(runs, tmp_path, num_passes=1)
    run.finish(run.loops())
    assert [(one.rerun, one.noised) for one in proved(run, "rush").passes] == [(False, False), (True, False)]


def test_a_start_that_wants_data_is_told_why_it_finds_none(tmp_path: Path, runs: list[PrivateRun]) -> None:
    def train(data_dir: Path, **given: Any) -> dict[str, Any]:
        raise FileNotFoundError(next(iter(data_dir.iterdir()), "cohort.csv"))

    run = made(runs, tmp_path, functions={"train": train})
    loops = run.loops()
    with pytest.raises(HookFailed) as it:
        run.finish(loops)
    assert it.value.hint.startswith("data_free_start: train(None) finds no data.")


@pytest.mark.parametrize("spec", SPECS)
def test_what_the_core_names_of_the_add_on_can_be_called_in_a_child(tmp_path: Path, spec: str) -> None:
    check_spec(tmp_path, spec)


@pytest.mark.parametrize("kind", ["int8", "top_k"])
def test_compressed_passes_are_expanded_before_they_are_aggregated(
    tmp_path: Path, runs: list[PrivateRun], kind: Literal["int8", "top_k"]
) -> None:
    """All coordinates move alike: int8 loses nothing, and what half a top_k kept follows a pass later."""
    small = Compression(kind, keep=0.5)
    run = made(runs, tmp_path, privacy=Privacy(), compression=small, num_passes=2)
    run.finish(run.loops())
    told = run.model(2)["w"].ravel()
    mean = sum(STEP.values()) / 3
    if kind == "int8":
        assert np.allclose(told, 2 * mean, rtol=1e-3)
        assert run.seal(1, "nu").model_bytes < run.seal(1).model_bytes / 2
    else:
        moved = np.round(told / mean).astype(int)
        assert set(moved.tolist()) <= {0, 1, 2, 3}
        assert moved.sum() == pytest.approx(1.0 * told.size + 1.0 * told.size / 2, rel=0.35)
    assert run.seal(1, "nu").transforms == (small.name,)
    assert [one.rerun for one in proved(run, "rush").passes] == [False, True, True]


def proved(run: PrivateRun, site: str) -> Proof:
    """What `verify --rerun` finds."""
    client = run.clients[site]
    record = Transcript(client.lanes)
    manifest = record.chain.manifest.doc
    bench = Workbench(client.settings, client.lanes, manifest=manifest, runner=client.runner)
    return Verification(record, bench=bench, logs=run.folder / "logs").run()


def _lost(*args: object, **named: object) -> None:
    raise ConnectionError
