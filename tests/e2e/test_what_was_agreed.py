"""Sites that do not keep to what was agreed: pins, the round's seed, the data they committed to."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from stitch import layout
from stitch.layout import Event, PassRef
from tests.e2e.breaking import Break
from tests.e2e.conftest import Build, Undisturbed, one_store
from tests.e2e.ending import check_ending, final_model
from tests.e2e.federation import Federation

AGREED = b"what every site has alike"
SHA = hashlib.sha256(AGREED).hexdigest()
SEAL = PassRef(1, "nu").seal
pytestmark = one_store
LEAVES = """
def leaves(data_dir):
    yield (data_dir / "value.txt").read_bytes()
    yield (data_dir / "n_samples.txt").read_bytes()
"""


def amend(fed: Federation, more: str) -> None:
    """Add tables to every site's stitch.toml."""
    for site in fed.sites:
        toml = fed.home(site) / "stitch.toml"
        toml.write_text(toml.read_text(encoding="utf-8") + more, encoding="utf-8")


def pinned(fed: Federation, *, when: str) -> Path:
    """A federation with a pinned file, and nu's copy of it."""
    amend(fed, f'\n[pins]\nagreed = {{ path = "agreed.txt", sha256 = "{SHA}", when = "{when}" }}\n')
    for site in fed.sites:
        (fed.home(site) / "agreed.txt").write_bytes(AGREED)
    return fed.home("nu") / "agreed.txt"


def own_paths(fed: Federation, site: str) -> list[str]:
    """What a site has said, beside that it lives."""
    paths = fed.paths(f"sites/{site}/")
    return [path for path in paths if "/lease/" not in path and not path.endswith("heartbeat.json")]


@pytest.mark.parametrize("when", ["always", "pass_0"])
def test_a_site_with_another_pinned_file_does_not_join(
    fed: Federation, undisturbed: Undisturbed, when: str
) -> None:
    """Scenarios 10 and 11: PinMismatch, no join document, no started file; with the file it goes on."""
    file = pinned(fed, when=when)
    file.write_bytes(b"another file")
    lead = fed.start("rush")
    fed.wait_for_seal(0)
    site = fed.start("nu")
    site.ends(34)
    assert "agreed.txt" in site.said
    assert fed.calls("nu") == []
    assert own_paths(fed, "nu") == []
    file.write_bytes(AGREED)
    fed.finish(lead)
    check_ending(fed, wanted=undisturbed(fed))
    assert fed.seal(1, "nu")["pins"] == {"agreed": SHA}
    assert fed.seal(2, "nu")["pins"] == ({"agreed": SHA} if when == "always" else {})


def test_a_warm_start_that_is_gone_after_pass_1_stops_nobody(
    fed: Federation, undisturbed: Undisturbed
) -> None:
    file = pinned(fed, when="pass_0")
    lead = fed.start("rush")
    fed.start("nu", Break("push", "nu/events/pass_001.completed", "after")).is_killed()
    fed.wait_for_seal(1)
    file.unlink()
    fed.finish(lead)
    check_ending(fed, wanted=undisturbed(fed))


def forged(fed: Federation, **claims: object) -> None:
    """nu dies after its seal; what the store then holds says something else."""
    fed.start("nu", Break("push", "nu/events/pass_001.completed", "after")).is_killed()
    seal = json.loads(fed.read(SEAL)) | claims
    fed.write(SEAL, json.dumps(seal, indent=2).encode())


def left_out(fed: Federation) -> tuple[list[str], list[dict[str, str]]]:
    """Whose passes global 1 was made of, and who was left out."""
    record = fed.seal(1)["round"]
    assert isinstance(record, dict)
    return [one["site"] for one in record["inputs"]], record["excluded"]


def test_a_site_that_echoes_a_wrong_round_seed_is_left_out_with_the_reason(fed: Federation) -> None:
    """Scenario 12: its update is rejected, the round closes over the others, and the run goes on."""
    gate = fed.gate("rush", "train-1-begin")
    lead = fed.start("rush")
    fed.wait_for_seal(0)
    forged(fed, round_seed=4711)
    gate.touch()
    fed.finish(lead)
    inputs, excluded = left_out(fed)
    assert inputs == ["rush"]
    assert excluded == [{"site": "nu", "reason": "its round seed is not that of its round"}]
    assert fed.json(layout.done())["final_pass"] == 2
    assert (fed.mirror("nu") / PassRef(2).folder / "model.bin").read_bytes() == final_model(fed)


def committing(federation: Build, *, on_mismatch: str = "abort") -> Federation:
    """Sites that commit to the two files that their training reads."""
    fed = federation()
    amend(fed, f'\n[integrity]\ncommit = true\n[policy]\non_mismatch = "{on_mismatch}"\n')
    for site in fed.sites:
        (fed.home(site) / "leaves.py").write_text(LEAVES, encoding="utf-8")
        toml = fed.home(site) / "stitch.toml"
        text = toml.read_text(encoding="utf-8")
        toml.write_text(text.replace("[hooks]", '[hooks]\nleaves = "leaves.py:leaves"'), encoding="utf-8")
    return fed


def test_a_seal_that_declares_other_data_than_its_training_began_with_is_left_out(
    federation: Build,
) -> None:
    """Scenario 22, at the lead, where the run goes on without it: the mismatch is named."""
    fed = committing(federation, on_mismatch="exclude")
    gate = fed.gate("rush", "train-1-begin")
    lead = fed.start("rush")
    fed.wait_for_seal(0)
    forged(fed, dataset_root="d" * 64)
    gate.touch()
    fed.finish(lead)
    inputs, excluded = left_out(fed)
    assert inputs == ["rush"]
    assert excluded == [{"site": "nu", "reason": "it declares other data than its training began with"}]


def test_a_mismatch_ends_the_attempt_stops_the_lead_and_asks_for_a_new_pass(federation: Build) -> None:
    """Scenario 22 as RFC-0013 has it: rejected, ABORTED, stop; an honest redo is then used."""
    fed = committing(federation)
    gate = fed.gate("rush", "train-1-begin")
    lead = fed.start("rush")
    fed.wait_for_seal(0)
    forged(fed, dataset_root="d" * 64)
    gate.touch()
    lead.ends(35)
    verdict = fed.json(layout.verdict(1, 0))
    assert (verdict["verdict"], verdict["code"], verdict["redo"]) == (
        "aborted",
        "commitment_mismatch",
        ["nu"],
    )
    assert not fed.has(PassRef(1).seal)
    fed.finish()
    assert left_out(fed) == (["nu", "rush"], [])
    assert fed.has(PassRef(1, "nu", 1).seal)


def test_data_that_change_during_a_training_are_a_mismatch_and_before_a_retrain_are_not(
    federation: Build,
) -> None:
    """Scenario 22, at the site: nothing is sealed; run again, it is a new attempt on the new data."""
    fed = committing(federation)
    gate = fed.gate("nu", "train-1-begin")
    lead = fed.start("rush")
    site = fed.start("nu")
    started = layout.event("nu", 1, name=Event.STARTED)
    fed.wait_for(started)
    fed.wait_until(lambda: fed.calls("nu") == ["train 1"], "nu trains")
    (fed.home("nu") / "data" / "n_samples.txt").write_text("61", encoding="utf-8")
    gate.touch()
    site.ends(35)
    assert not fed.has(SEAL)
    failed = fed.json(layout.event("nu", 1, name=Event.FAILED))
    assert (failed["exception"], failed["message"]) == ("CommitmentMismatch", None)
    fed.finish(lead)
    again = fed.json(layout.event("nu", 1, name=Event.STARTED, attempt=2))
    assert fed.json(started)["dataset_root"] != again["dataset_root"]
    seal = fed.seal(1, "nu")
    assert (seal["attempt"], seal["n_samples"], seal["dataset_root"]) == (2, 61, again["dataset_root"])
    assert left_out(fed) == (["nu", "rush"], [])
    assert not [path for path in fed.paths() if b"patient" in fed.read(path)]


def test_a_site_whose_hooks_are_not_the_lead_s_does_not_train_where_that_was_agreed(
    fed: Federation, undisturbed: Undisturbed
) -> None:
    amend(fed, '\n[integrity]\nsame_train = "refuse"\n')
    hooks = fed.home("nu") / "hooks.py"
    honest = hooks.read_text(encoding="utf-8")
    hooks.write_text(honest + "\n# mended here alone\n", encoding="utf-8")
    lead = fed.start("rush")
    fed.wait_for_seal(0)
    site = fed.start("nu")
    site.ends(2)
    assert "the hooks of nu" in site.said
    assert "those of rush" in site.said
    assert own_paths(fed, "nu") == [layout.join("nu", 1)]
    hooks.write_text(honest, encoding="utf-8")
    fed.finish(lead)
    check_ending(fed, wanted=undisturbed(fed))
