"""Random histories of federations that commit to their data, while the data change at any moment.

No honest pass is ever left out for its commitment: a seal is compared with the start of its own
attempt, whatever other processes of the site, on other data, have started since.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from stitch import layout
from stitch.config.settings import Integrity, Settings
from stitch.errors import CommitmentMismatch
from stitch.layout import Event, PassRef
from stitch.sync.lease import Lease
from stitch.testing.federation import Federation
from stitch.testing.processes import Process
from stitch.wire import EventDoc
from tests.property.chaos import Chaos
from tests.property.laws import check

HISTORIES = 60
LEASELESS = 30
CHANGE = 0.15


class Committed(Chaos):
    """A history in which rows are added to a site's data now and then, also while it trains."""

    def _before(self, process: Process, what: str, *, key: str) -> None:
        if (
            self.wild
            and what in ("train", "stat")
            and self.chance.random() < CHANGE / (1 + 9 * (what == "stat"))
        ):
            rows = process.client.data_dir / "rows.csv"
            rows.write_bytes(rows.read_bytes() + b"another\n")
            self.say(f"{process}: its data change before {what} {key}")
        super()._before(process, what, key=key)


@pytest.fixture
def folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for mirrors and data; every site commits, and every machine of a site has data of its own."""
    settings = Federation.settings

    def committing(federation: Federation, site: str, host: str = "") -> Settings:
        found = settings(federation, site, host)
        found.data_dir.mkdir(parents=True, exist_ok=True)
        if not (found.data_dir / "rows.csv").exists():
            (found.data_dir / "rows.csv").write_bytes(host.encode())
        return replace(found, integrity=Integrity(commit=True))

    monkeypatch.setattr(Federation, "settings", committing)
    return folder


def live_through(chaos: Committed) -> None:
    """Run a history and hold it to the laws, and to the one of this page."""
    try:
        chaos.run()
        check(chaos.federation)
        every_seal_declares_the_data_of_its_own_start(chaos.federation)
    except Exception:
        print("\n".join(chaos.trace))
        raise


def every_seal_declares_the_data_of_its_own_start(federation: Federation) -> None:
    for number in range(1, federation.final_pass + 1):
        for site in federation.sites:
            seal = federation.seal(PassRef(number, site))
            assert seal is not None
            path = layout.event(site, number, name=Event.STARTED, attempt=seal.attempt)
            started = EventDoc.parse(federation.read(path) or b"", source=path)
            assert seal.dataset_root is not None
            assert seal.dataset_root == started.dataset_root


@pytest.mark.parametrize("seed", range(HISTORIES))
def test_no_honest_site_is_left_out(folder: Path, seed: int) -> None:
    live_through(Committed(seed, folder))


@pytest.mark.parametrize("seed", range(1000, 1000 + LEASELESS))
def test_two_machines_of_one_site_with_different_data_do_no_harm(
    folder: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the lease both train at once, each on its own data."""
    monkeypatch.setattr(Lease, "_holder", lambda lease, newest: None)
    monkeypatch.setattr(Lease, "still", lambda lease: None)
    monkeypatch.setattr(Lease, "beat", lambda lease, state, pass_id: None)
    live_through(Committed(seed, folder))


def test_the_histories_do_change_data_while_a_pass_trains(folder: Path) -> None:
    """Else the rest of this page would show nothing."""
    met = 0
    for seed in range(12):
        chaos = Committed(seed, folder / str(seed))
        chaos.run()
        met += sum(isinstance(one.error, CommitmentMismatch) for one in chaos.federation.processes)
    assert met > 0
