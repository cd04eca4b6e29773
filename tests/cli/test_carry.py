"""`clif-stitch carry`: a site without a network takes part by stick alone."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.federation import Federation, snapshot, unchanged
from tests.cli.travel import LIFE, Travel, travel_of

NU = "icu.sites-nu.sha256"


@pytest.fixture
def travel(federation: Federation, tmp_path: Path) -> Travel:
    return travel_of(federation, tmp_path)


def test_a_site_that_never_touches_the_network_takes_part_to_the_end(travel: Travel) -> None:
    for site in (travel.federation.lead, travel.nu, travel.helper):
        site.toml("num_passes = 1", "num_passes = 2")
    travel.to_the_end()
    (final,) = (travel.federation.run / "global/pass_002").glob("model.*.json")
    assert final.read_text("utf-8") == "3.0"
    assert (travel.nu.mirror / "global/pass_002/model.json").read_text("utf-8") == "3.0"
    lane = snapshot(travel.replica / "sites/nu", but=("heartbeat",))
    assert lane == snapshot(travel.federation.run / "sites/nu", but=("heartbeat",)), "identical hashes"
    assert len(lane) >= 10
    their = snapshot(travel.federation.run / "global", but=LIFE)
    assert snapshot(travel.replica / "global", but=LIFE) == their


def begun(travel: Travel) -> None:
    """Global 0 was carried to nu, nu trained pass 1, and its files lie on the stick."""
    travel.federation.begin()
    travel.down()
    assert travel.nu.call("step", "--exit-code").code == 0
    travel.carry(travel.nu, "out")


def test_the_stick_holds_the_stores_keys_and_a_list_that_sha256sum_reads(travel: Travel) -> None:
    begun(travel)
    files = {path.relative_to(travel.stick).as_posix() for path in travel.stick.rglob("*") if path.is_file()}
    lists = {name for name in files if name.endswith(".sha256")}
    assert lists == {NU, "icu.global.sha256"}
    listed = [
        line.split("  ", 1)
        for name in lists
        for line in (travel.stick / name).read_text("ascii").splitlines()[:-1]
    ]
    assert {path for _, path in listed} == files - lists
    for digest, path in listed:
        assert hashlib.sha256((travel.stick / path).read_bytes()).hexdigest() == digest
    assert not any("heartbeat" in name or "global/lease" in name for name in files)
    if shutil.which("sha256sum"):
        for name in lists:
            done = subprocess.run(
                ["sha256sum", "--quiet", "-c", name], cwd=travel.stick, capture_output=True, check=False
            )
            assert (done.returncode, done.stdout) == (0, b"")


def test_carrying_twice_changes_nothing_and_says_so(travel: Travel) -> None:
    begun(travel)
    travel.carry(travel.helper, "in")
    with unchanged(travel.stick, travel.federation.store):
        again = travel.carry(travel.nu, "out")
        assert "sites/nu: 0 files written" in again.out
        again = travel.carry(travel.helper, "in")
        assert "sites/nu: 0 files written" in again.out


def test_what_was_carried_is_not_carried_again_unless_the_stick_was_lost(travel: Travel) -> None:
    """As through a diode: the folder is emptied at every trip."""
    begun(travel)
    travel.carry(travel.helper, "in")
    shutil.rmtree(travel.stick)
    assert "sites/nu: 0 files written" in travel.carry(travel.nu, "out").out
    assert not list(travel.stick.rglob("metrics.json"))
    said = travel.carry(travel.nu, "out", "--all")
    assert "icu" not in said.err
    assert list(travel.stick.rglob("pass_001/metrics.json"))
    assert "0 files written" in travel.carry(travel.helper, "in").out


def test_another_pass_under_the_same_name_is_a_conflict_and_stays(travel: Travel) -> None:
    begun(travel)
    assert travel.helper.call("step").code == 0  # somebody also ran the site where the network is
    with unchanged(travel.federation.store, but=("completed", "lease/")):
        said = travel.carry(travel.helper, "in", code=24)
    assert said.cause.startswith("CONFLICT: sites/nu/")
    assert "kept as it is" in said.cause


def rename_lane(stick: Path) -> None:
    text = (stick / NU).read_text("ascii")
    (stick / NU).write_text(text.replace("icu/sites/nu/join", "icu/sites/rush/join"), "ascii")


def climb(stick: Path) -> None:
    text = (stick / NU).read_text("ascii")
    (stick / NU).write_text(text.replace("icu/sites/nu/join/0001.json", "icu/../../secret.json"), "ascii")


def forge_global(stick: Path) -> None:
    text = (stick / NU).read_text("ascii")
    (stick / NU).write_text("0" * 64 + "  icu/global/DONE.json\n" + text, "ascii")


def cut(stick: Path) -> None:
    data = (stick / NU).read_bytes()
    (stick / NU).write_bytes(data[: len(data) // 2])


def binary(stick: Path) -> None:
    (stick / NU).write_bytes(b"\xff\x00" * 1000)


@pytest.mark.parametrize("damage", [rename_lane, climb, forge_global, cut, binary])
def test_a_list_that_names_what_is_not_of_that_lane_brings_in_nothing(
    travel: Travel, damage: Callable[[Path], None]
) -> None:
    begun(travel)
    damage(travel.stick)
    with unchanged(travel.federation.store):
        said = travel.carry(travel.helper, "in", code=31)
    assert NU in said.cause


def flip(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(bytes(data))


def huge(file: Path) -> None:
    with file.open("wb") as sink:
        sink.truncate(1 << 30)


def a_link(file: Path) -> None:
    kept = file.with_name("kept")
    file.rename(kept)
    file.symlink_to(kept)


@pytest.mark.parametrize("damage", [flip, huge, a_link, Path.unlink])
@pytest.mark.parametrize("name", ["model.*.json", "metrics.json"])
def test_a_file_that_is_not_what_was_carried_out_is_left_out_and_a_new_copy_goes_on(
    travel: Travel, damage: Callable[[Path], None], name: str
) -> None:
    begun(travel)
    (file,) = travel.stick.glob(f"icu/sites/nu/pass_001/{name}")
    whole = file.read_bytes()
    damage(file)
    said = travel.carry(travel.helper, "in", code=33)
    assert "carry out" in said.todo
    stored = travel.federation.run / "sites/nu/pass_001/metrics.json"
    assert not stored.exists(), "no seal without its model"
    file.unlink(missing_ok=True)
    file.write_bytes(whole)
    travel.carry(travel.helper, "in")
    assert stored.read_bytes() == (travel.replica / "sites/nu/pass_001/metrics.json").read_bytes()


def test_an_old_stick_does_not_turn_the_leads_view_back(travel: Travel) -> None:
    begun(travel)
    old = travel.stick.with_name("old")
    shutil.copytree(travel.stick, old)
    travel.carry(travel.helper, "in")
    for _ in range(3):
        travel.federation.lead.call("step")
    travel.down()
    view = travel.replica / "global/orchestration.json"
    newest = view.read_bytes()
    assert json.loads(newest)["phase"] == "complete"
    assert travel.nu.call("carry", "in", str(old)).code == 0
    assert view.read_bytes() == newest


def test_under_review_only_what_was_approved_can_be_carried(travel: Travel) -> None:
    travel.nu.write("config/config.json", '{"site_name": "nu", "data_directory": "data", "outbox": "review"}')
    travel.federation.begin()
    travel.down()
    assert travel.nu.call("step", "--exit-code").code == 3
    travel.carry(travel.nu, "out")
    assert not list(travel.stick.glob("icu/sites/nu/pass_001/*"))
    travel.nu.call("outbox", "show")
    travel.nu.call("outbox", "approve", "1")
    travel.nu.call("step")
    travel.carry(travel.nu, "out")
    assert list(travel.stick.glob("icu/sites/nu/pass_001/metrics.json"))


def test_what_arrived_on_the_connected_machine_keeps_its_copy_in_final_no_phi(travel: Travel) -> None:
    begun(travel)
    travel.carry(travel.helper, "in")
    assert (travel.helper.root / "output/final_no_phi/icu/sites/nu/pass_001/metrics.json").is_file()


def test_the_lead_carries_nothing_unless_it_is_for_another_site(travel: Travel) -> None:
    begun(travel)
    said = travel.carry(travel.federation.lead, "in", code=2)
    assert said.cause == "rush leads this run: its lanes are not carried"
    assert "--site ID" in said.todo
    assert "sites/nu: " in travel.carry(travel.federation.lead, "in", "--site", "nu").out
    assert (travel.federation.run / "sites/nu/pass_001/metrics.json").is_file()


def test_an_empty_stick_is_named(travel: Travel) -> None:
    travel.federation.begin()
    travel.stick.mkdir()
    said = travel.carry(travel.helper, "in", code=2)
    assert "holds nothing of sites/nu for run icu" in said.cause
    assert "carry out" in said.todo
    said = travel.carry(travel.nu, "in", code=2)
    assert "holds nothing of global" in said.cause


def test_a_folder_that_was_not_made_is_named_as_a_store(travel: Travel) -> None:
    (travel.nu.root / "island").rmdir()
    said = travel.carry(travel.nu, "out", code=23)
    assert "island" in said.cause
    assert not travel.stick.exists()
