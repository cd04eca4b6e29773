"""Random histories of whole federations: faults of any kind anywhere, then calm, then the laws.

A history is its seed. To see one: `pytest tests/property/test_federation_histories.py -k "[17]"`;
what happened is in the report of a failure.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from stitch.sync.lease import Lease
from stitch.testing.federation import Federation
from tests.property import buffered_laws, elastic_laws
from tests.property.buffered_chaos import BufferedChaos
from tests.property.chaos import Chaos
from tests.property.elastic_chaos import ElasticChaos
from tests.property.laws import check

HISTORIES = 1000
LEASELESS = 80
ELASTIC = 1000
LAWS: dict[type[Chaos], Callable[[Federation], None]] = {
    BufferedChaos: buffered_laws.check,
    ElasticChaos: elastic_laws.check,
}
BUFFERED = 1000


def without_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everybody believes to hold every lane."""
    monkeypatch.setattr(Lease, "_holder", lambda lease, newest: None)
    monkeypatch.setattr(Lease, "still", lambda lease: None)
    monkeypatch.setattr(Lease, "beat", lambda lease, state, pass_id: None)


def live_through(chaos: Chaos) -> None:
    """Run a history and hold it to the laws; one that breaks them is shown."""
    try:
        chaos.run()
        laws = next((one for kind, one in LAWS.items() if isinstance(chaos, kind)), check)
        laws(chaos.federation)
    except Exception:
        print("\n".join(chaos.trace))
        raise


def test_an_undisturbed_federation_keeps_the_laws(folder: Path) -> None:
    federation = Federation(folder, num_passes=3)
    for site in federation.sites:
        federation.start(site)
    federation.run()
    assert all(process.finished for process in federation.processes)
    check(federation)


@pytest.mark.parametrize("seed", range(HISTORIES))
def test_every_history_ends_with_the_laws_kept(folder: Path, seed: int) -> None:
    live_through(Chaos(seed, folder))


@pytest.mark.parametrize("seed", range(HISTORIES, HISTORIES + LEASELESS))
def test_without_a_lease_the_laws_are_kept_as_well(
    folder: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lease saves double work; laws 1, 2 and 11 keep two of everybody correct (law 10)."""
    without_lease(monkeypatch)
    live_through(Chaos(seed, folder))


@pytest.mark.parametrize("seed", range(ELASTIC))
def test_every_history_of_a_quorum_ends_with_the_laws_kept(folder: Path, seed: int) -> None:
    live_through(ElasticChaos(seed, folder))


@pytest.mark.parametrize("seed", range(ELASTIC, ELASTIC + LEASELESS))
def test_a_quorum_keeps_the_laws_without_a_lease_as_well(
    folder: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_lease(monkeypatch)
    live_through(ElasticChaos(seed, folder))


@pytest.mark.parametrize("seed", range(BUFFERED))
def test_every_history_of_a_buffer_ends_with_the_laws_kept(folder: Path, seed: int) -> None:
    live_through(BufferedChaos(seed, folder))


@pytest.mark.parametrize("seed", range(BUFFERED, BUFFERED + LEASELESS))
def test_a_buffer_keeps_the_laws_without_a_lease_as_well(
    folder: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_lease(monkeypatch)
    live_through(BufferedChaos(seed, folder))


def test_a_history_is_its_seed(folder: Path) -> None:
    """Otherwise a failure could not be looked at again."""
    first, second = (Chaos(3, folder / name) for name in ("one", "two"))
    first.run()
    second.run()
    assert first.trace == second.trace
    assert len(first.trace) > 50
