"""Carrying a signed run, with processes that are killed on the way, and between a container and a folder."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest

from stitch import layout
from stitch.layout import SIGNED, What
from stitch.store import StoreOptions, open_store
from stitch.testing.azurite import Azurite
from stitch.wire import sha256
from tests.cli.federation import RUN, Federation, snapshot
from tests.cli.places import killed_while_it_writes
from tests.cli.travel import LIFE, Travel, travel_of


@pytest.fixture
def travel(federation: Federation, tmp_path: Path) -> Travel:
    return travel_of(federation, tmp_path)


def lane(folder: Path, name: str = "sites/nu") -> dict[str, str]:
    """A lane's files with their hashes, but for what is never carried."""
    return snapshot(folder / name, but=LIFE)


# -- a run that signs ------------------------------------------------------------------------------


def signed(travel: Travel) -> None:
    """Every site makes its key; the connected machine needs none: it carries what was signed elsewhere."""
    federation = travel.federation
    for site in (federation.lead, federation.nu):
        assert site.call("keys", "init").code == 0
    lead_key = federation.lead.call("keys").out.strip()
    for site in (federation.lead, federation.nu, travel.helper):
        site.toml("[transfer]", f'[security]\nsign = true\nlead_key = "{lead_key}"\n[transfer]')
    federation.begin()
    own = federation.nu.call("keys").out.strip()
    assert federation.lead.call("sites", "add", "nu", "--key", own).code == 0


def test_a_site_without_a_network_takes_part_in_a_signed_run_and_it_is_proven(travel: Travel) -> None:
    signed(travel)
    travel.to_the_end()
    run = travel.federation.run
    assert not (travel.helper.root / "keys").exists()
    there = lane(run)
    assert there == lane(travel.replica), "identical hashes, signatures included"
    for path in there:
        full = f"sites/nu/{path}"
        key = layout.parse(full)
        if key is not None and key.what in SIGNED:
            data = (run / full).read_bytes()
            assert layout.signature(full, sha256(data)).removeprefix("sites/nu/") in there
    said = travel.federation.lead.call("verify")
    assert (said.code, said.err) == (0, ""), said
    assert "every sealed document is signed" in said.out


def test_a_signature_that_is_lost_on_the_way_keeps_its_pass_from_being_used(travel: Travel) -> None:
    signed(travel)
    travel.down()
    assert travel.nu.call("step", "--exit-code").code == 0
    travel.carry(travel.nu, "out")
    (signature,) = travel.stick.glob("icu/sites/nu/pass_001/metrics.*.sig.json")
    kept = signature.read_bytes()
    signature.unlink()
    travel.carry(travel.helper, "in", code=33)
    assert "is not signed" in travel.federation.lead.call("step").out
    assert not (travel.federation.run / "global/pass_001").exists()
    signature.write_bytes(kept)
    travel.carry(travel.helper, "in")
    assert travel.federation.lead.call("step").code == 0
    assert (travel.federation.run / "global/pass_001/metrics.json").is_file()


# -- killed on the way -----------------------------------------------------------------------------


@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL is POSIX's; the files are written the same way")
def test_out_and_in_are_killed_while_they_write_and_the_same_command_comes_to_the_same_files(
    travel: Travel,
) -> None:
    """Real processes, SIGKILL in the middle of a write; both ends are compared afterwards."""
    travel.federation.begin()
    travel.down()
    assert travel.nu.call("step", "--exit-code").code == 0
    deaths = 0
    for site, way, folder in (
        (travel.nu, "out", travel.stick),
        (travel.helper, "in", travel.federation.store),
    ):
        for after in (1, 5, 9):
            site.wrap = killed_while_it_writes(folder, after=after)
            said = site.call("carry", way, str(travel.stick))
            deaths += said.code == -signal.SIGKILL
            assert said.code in (0, -signal.SIGKILL), said
            if way == "in":
                stored = lane(travel.federation.run)
                whole = [name for name in stored if name.startswith("pass_001/model.")]
                assert whole or "pass_001/metrics.json" not in stored, "no seal before its model"
        site.wrap = ()
        travel.carry(site, way)
    assert deaths >= 4, "else nothing was tried"
    assert lane(travel.federation.run) == lane(travel.replica)
    assert len(lane(travel.replica)) >= 5
    assert "0 files written" in travel.carry(travel.nu, "out").out
    assert "0 files written" in travel.carry(travel.helper, "in").out


# -- a container at one end ------------------------------------------------------------------------


def test_a_lane_is_carried_between_a_container_and_a_folder(travel: Travel, azurite: Azurite) -> None:
    """The usual case: the lead's store is in the cloud, the island a plain folder; digests need fetching."""
    url = azurite.container_url(azurite.new_container())
    for site in (travel.federation.lead, travel.helper):
        site.write(".env", f'STITCH_STORE="{url}"\n')
    travel.to_the_end()
    store = open_store(url, options=StoreOptions())
    paths = [entry.key.removeprefix(f"{RUN}/") for entry in store.list(f"{RUN}/")]
    kept = {"sites/nu": 0, "global": 0}
    for path in paths:
        key = layout.require(path)
        if key.lane not in kept or key.what in (What.HEARTBEAT, What.TERM):
            continue
        to = travel.stick.parent / "looked-at"
        store.pull(f"{RUN}/{path}", to)
        assert to.read_bytes() == (travel.replica / path).read_bytes(), path
        kept[key.lane] += 1
    assert kept["sites/nu"] == 5, "join, started, completed, model, seal"
    assert kept["global"] >= 8
    assert travel.federation.lead.call("verify").code == 0
    assert "0 files written" in travel.carry(travel.helper, "in").out
