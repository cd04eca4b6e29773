"""Carrying that dies between any two requests, or between any two files: the same command goes on."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from unittest import mock

import pytest

from stitch import layout
from stitch.client.carry import Carrier
from stitch.client.carry_list import Carried
from stitch.config.settings import Settings, StoreUrls
from stitch.files import sync_file
from stitch.layout import PassRef
from stitch.mirror import Mirror
from stitch.store.folder import FolderStore
from stitch.store.lanes import Lanes
from stitch.testing import Crashed, Fault, FaultyStore, Federation, scripted
from stitch.testing.federation import EXT, RUN_ID

NU = "sites/nu"


class Trip:
    """A site's own folder, a stick and the real store, after a whole federation."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.real = folder / "real"
        self.island = folder / "island"
        self.stick = folder / "stick"
        self.real.mkdir()
        self.federation = Federation(folder / "sites", store=FolderStore(self.real), num_passes=1)
        for site in self.federation.sites:
            self.federation.start(site)
        self.federation.run()
        # As if nu had worked on its island: its lane lies there, and not yet in the real store.
        (self.island / RUN_ID / "sites").mkdir(parents=True)
        (self.real / RUN_ID / NU).rename(self.island / RUN_ID / NU)

    def carrier(self, store: Path, crash: dict[int, Fault] | None = None) -> Carrier:
        """Who carries at one end; dies at the requests that `crash` numbers."""
        settings = self.federation.settings("nu", store.name)
        urls = StoreUrls(global_=store.as_uri(), site=store.as_uri())
        inner = FaultyStore(FolderStore(store), scripted(crash or {}))
        lanes = Lanes(RUN_ID, {layout.GLOBAL: inner, NU: inner}, {})
        settings = replace(settings, urls=urls)
        return Carrier(settings, lanes, mirror=Mirror(settings.mirror_dir))

    def lane(self, store: Path, lane: str = NU) -> dict[str, str]:
        """Every file of a lane with its hash, but for what is never carried."""
        root = store / RUN_ID / lane
        files = (path for path in root.rglob("*") if path.is_file() and not path.name.startswith("."))
        kept = (path for path in files if path.name != "heartbeat.json" and "lease" not in path.parts)
        return {str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest() for path in kept}


@pytest.fixture
def trip(tmp_path: Path) -> Trip:
    return Trip(tmp_path)


def crashes(how: Fault) -> Iterator[dict[int, Fault]]:
    """A death at the first request, at the second, ..."""
    yield from ({number: how} for number in range(200))


@pytest.mark.parametrize("how", ["crash_before", "crash_after"])
def test_out_and_in_die_at_every_request_and_go_on(trip: Trip, how: Fault) -> None:
    deaths = {"out": 0, "in": 0}
    for way, store in (("out", trip.island), ("in", trip.real)):
        for crash in crashes(how):
            carrier = trip.carrier(store, crash)
            try:
                carrier.out(trip.stick) if way == "out" else carrier.bring_in(trip.stick)
            except Crashed:
                deaths[way] += 1
                if way == "in":
                    no_seal_without_its_model(trip)
            else:
                break
    assert min(deaths.values()) > 5
    assert trip.lane(trip.real) == trip.lane(trip.island)


def no_seal_without_its_model(trip: Trip) -> None:
    folder = trip.real / RUN_ID / PassRef(1, "nu").folder
    assert not (folder / "metrics.json").exists() or list(folder.glob(f"model.*.{EXT}"))


def test_a_stick_that_is_pulled_out_between_two_files_is_never_taken_for_a_whole_one(trip: Trip) -> None:
    """The list comes last: until then there is nothing to bring in."""
    nth = 0
    real = sync_file
    while True:
        nth += 1
        left = nth

        def dies(file: Path) -> None:
            nonlocal left
            left -= 1
            if not left:
                raise Crashed("the stick is gone")
            real(file)

        with mock.patch("stitch.client.carry.sync_file", dies):
            try:
                carried: Carried = trip.carrier(trip.island).out(trip.stick)
            except Crashed:
                assert not list(trip.stick.glob("*.sha256"))
                continue
        break
    assert nth > 4
    assert len(carried.moved) == len(trip.lane(trip.island)) + 1, "and its term"
    trip.carrier(trip.real).bring_in(trip.stick)
    assert trip.lane(trip.real) == trip.lane(trip.island)


def test_a_seal_whose_model_has_not_come_whole_waits(trip: Trip) -> None:
    (model,) = (trip.island / RUN_ID / PassRef(1, "nu").folder).glob("model.*")
    whole = model.read_bytes()
    model.write_bytes(whole[:-1])
    carried = trip.carrier(trip.island).out(trip.stick)
    assert any("is not whole yet" in line for line in carried.waiting)
    assert PassRef(1, "nu").seal not in carried.moved
    model.write_bytes(whole)
    assert PassRef(1, "nu").seal in trip.carrier(trip.island).out(trip.stick).moved


def test_settings_of_the_real_store_tell_which_way_each_lane_goes(trip: Trip) -> None:
    assert trip.carrier(trip.real).out(trip.stick).lane == layout.GLOBAL
    assert trip.carrier(trip.island).out(trip.stick).lane == NU
    assert trip.carrier(trip.island).bring_in(trip.stick).lane == layout.GLOBAL
    assert trip.lane(trip.island, "global") == trip.lane(trip.real, "global")
    assert not (trip.island / RUN_ID / "global/lease").exists()
    assert isinstance(trip.federation.settings("nu"), Settings)


def test_a_stick_that_came_back_altered_is_not_believed(trip: Trip) -> None:
    """Its list claims that a file is there already; only what this machine wrote itself counts."""
    trip.carrier(trip.island).out(trip.stick)
    (listed,) = trip.stick.glob("*.sha256")
    whole = listed.read_bytes()
    listed.write_bytes(whole.replace(b"0", b"1").replace(b"trial/sites", b"trial/../sites"))
    trip.carrier(trip.island).out(trip.stick, everything=True)
    assert listed.read_bytes() == whole
    listed.write_bytes(b"cut short")
    trip.carrier(trip.island).out(trip.stick, everything=True)
    assert listed.read_bytes() == whole
