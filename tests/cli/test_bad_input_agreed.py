"""What sites agreed on and one of them does not keep: told by name, nothing published, mended and gone on."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from tests.cli.federation import Federation, unchanged

SCHEMA = '{"age": "years"}'
SHA = hashlib.sha256(SCHEMA.encode()).hexdigest()


def amend(federation: Federation, table: str) -> None:
    """Another table in every site's stitch.toml."""
    for site in (federation.lead, federation.nu):
        site.toml("[transfer]", f"{table}\n[transfer]")


def pin(federation: Federation, when: str = "always") -> None:
    """A pinned file that every site has."""
    amend(federation, f'[pins]\nschema = {{ path = "schema.json", sha256 = "{SHA}", when = "{when}" }}')
    for site in (federation.lead, federation.nu):
        site.write("schema.json", SCHEMA)


def said_by(federation: Federation) -> list[str]:
    """What nu published, beyond that it lives."""
    lane = federation.run / "sites/nu"
    return [path.name for path in lane.rglob("*.json") if path.parent.name in ("join", "pass_001", "events")]


def test_another_pinned_file_is_named_and_the_site_publishes_nothing(federation: Federation) -> None:
    pin(federation)
    federation.begin()
    federation.nu.write("schema.json", '{"age": "months"}')
    with unchanged(federation.store, federation.nu.mirror / "sites"):
        said = federation.nu.call("run")
    assert said.code == 34
    assert said.cause.startswith("the pinned file schema.json has sha256 ")
    assert said.cause.endswith(f", not {SHA[:12]}... (pin schema)")
    assert said.todo.startswith("Get the agreed file from the lead.")
    assert set(said_by(federation)) <= {"heartbeat.json"}
    federation.nu.write("schema.json", SCHEMA)
    federation.finish_well()


def test_a_missing_pinned_file_is_found_by_doctor_before_the_run(federation: Federation) -> None:
    pin(federation)
    assert "as agreed: schema" in federation.nu.call("doctor").out
    (federation.nu.root / "schema.json").unlink()
    said = federation.nu.call("doctor", "--json")
    (check,) = [one for one in json.loads(said.out)["checks"] if one["name"] == "pins"]
    assert (said.code, check["state"]) == (34, "fail")
    assert check["finding"] == "the pinned file schema.json is missing (pin schema)"


def test_a_warm_start_is_a_warning_of_doctor_alone(federation: Federation) -> None:
    pin(federation, "pass_0")
    (federation.nu.root / "schema.json").unlink()
    said = federation.nu.call("doctor")
    assert said.code == 0
    assert "Get it before pass 1, which alone needs it." in said.out


def test_the_lead_begins_no_run_while_its_own_pinned_file_is_another(federation: Federation) -> None:
    pin(federation)
    federation.lead.write("schema.json", "{}")
    said = federation.lead.call("run")
    assert said.code == 34
    assert not (federation.run / "global/manifest.json").exists()
    assert not list(federation.run.rglob("join"))


def test_pins_that_differ_from_the_run_s_are_settings_that_differ(federation: Federation) -> None:
    pin(federation)
    federation.begin()
    federation.nu.toml(SHA, "0" * 64)
    with unchanged(federation.store):
        said = federation.nu.call("run")
    assert said.code == 2
    assert said.cause.startswith("run icu was begun with other settings: pins.schema.sha256 (begun with ")


def test_other_hooks_than_the_lead_s_do_not_train_where_that_is_refused(federation: Federation) -> None:
    amend(federation, '[integrity]\nsame_train = "refuse"')
    federation.begin()
    federation.nu.hooks('"loss": 0.5', '"loss": 0.4')
    said = federation.nu.call("run")
    assert said.code == 2
    assert said.cause.startswith("the hooks of nu (")
    assert "are not those of rush (" in said.cause
    assert said.todo == 'Take over the code of rush; or set same_train = "warn" under [integrity].'
    assert "0001.json" in said_by(federation)
    assert not [name for name in said_by(federation) if name.startswith("pass_")]
    shown = json.loads(federation.nu.call("status", "--json").out)
    assert {site["site"]: site["hooks"] for site in shown["sites"]} == {"rush": "same", "nu": "different"}
    federation.nu.write_honest_hooks()
    federation.finish_well()


def test_by_default_other_hooks_are_a_matter_for_status(federation: Federation) -> None:
    federation.begin()
    federation.nu.hooks('"loss": 0.5', '"loss": 0.4')
    federation.finish_well()


def data(federation: Federation) -> Path:
    """Some data at every site, in a run that commits to them."""
    amend(federation, "[integrity]\ncommit = true")
    for site in (federation.lead, federation.nu):
        site.write("data/rows.csv", "id,hr\n1,80\n")
    return federation.nu.root / "data/rows.csv"


def test_a_run_that_commits_ends_well_and_tells_nothing_of_the_data(federation: Federation) -> None:
    data(federation)
    federation.finish_well()
    told = [path.read_bytes() for path in federation.run.rglob("*") if path.is_file()]
    plain = hashlib.sha256(b"id,hr\n1,80\n").hexdigest().encode()
    salts = [site.mirror / "local/dataset/salt" for site in (federation.lead, federation.nu)]
    for secret in (b"rows.csv", plain, *(salt.read_bytes() for salt in salts)):
        assert not [text for text in told if secret in text]
    seal = json.loads((federation.run / "sites/nu/pass_001/metrics.json").read_bytes())
    started = json.loads((federation.run / "sites/nu/events/pass_001.started.json").read_bytes())
    assert seal["dataset_root"] == started["dataset_root"] is not None


def test_no_data_to_commit_to_is_said_before_anything_is_trained(federation: Federation) -> None:
    rows = data(federation)
    federation.begin()
    rows.unlink()
    said = federation.nu.call("run")
    assert (said.code, said.cause) == (2, "there is no data to commit to")
    assert "data_directory" in said.todo
    assert not [name for name in said_by(federation) if name.startswith("pass_")]
    rows.write_text("id,hr\n1,80\n", encoding="utf-8")
    federation.finish_well()


def test_data_that_a_hook_changes_are_a_mismatch_and_its_model_stays_here(federation: Federation) -> None:
    data(federation)
    federation.begin()
    federation.nu.hooks(
        "    return {", '    (pathlib.Path(data_dir) / "cache.tmp").write_text("x")\n    return {'
    )
    said = federation.nu.call("run")
    assert said.code == 35
    assert said.cause == "pass 1: the data changed while it trained; it was not sealed"
    assert said.todo.startswith("Let nothing write into the data folder during a pass")
    assert not (federation.run / "sites/nu/pass_001").exists()
    assert "pass_001.failed.json" in said_by(federation)
    federation.nu.write_honest_hooks()
    federation.finish_well()


def test_a_leaves_hook_that_fails_is_named_and_its_words_stay_in_its_log(federation: Federation) -> None:
    data(federation)
    for site in (federation.lead, federation.nu):
        site.toml("[hooks]", '[hooks]\nleaves = "code/leaves.py:leaves"')
        site.write("code/leaves.py", "def leaves(data_dir):\n    yield b'one'\n")
    federation.begin()
    federation.nu.write("code/leaves.py", "def leaves(data_dir):\n    raise ValueError('patient 4711')\n")
    said = federation.nu.call("run")
    assert said.code == 11
    assert said.cause.endswith("raised ValueError at code/leaves.py:2")
    assert "4711" in federation.nu.call("log", "--hook", "leaves").out
    assert not [path for path in federation.run.rglob("*.json") if b"4711" in path.read_bytes()]
    assert not [name for name in said_by(federation) if name.startswith("pass_")]
    federation.nu.write("code/leaves.py", "def leaves(data_dir):\n    yield b'one'\n")
    federation.finish_well()
