"""Federations on each store, and the model that an undisturbed run comes to."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from stitch.testing.azurite import Azurite
from tests.e2e.ending import check_ending, final_model
from tests.e2e.federation import Federation

one_store = pytest.mark.parametrize("store_url", ["folder"], indirect=True)
"""For what a hook, a document or the mirror decides: which store holds the files makes no difference."""

Build = Callable[..., Federation]
Undisturbed = Callable[[Federation], bytes]


@pytest.fixture(params=["folder", "azurite"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty store: a folder, and a container that its own token opens."""
    if request.param == "folder":
        (tmp_path / "store").mkdir()
        return (tmp_path / "store").as_uri()
    server: Azurite = request.getfixturevalue("azurite")
    return server.container_url(server.new_container())


@pytest.fixture
def federation(tmp_path: Path, store_url: str) -> Iterator[Build]:
    """Builds a federation on the store; none of its processes outlives the test."""
    built: list[Federation] = []

    def build(**options: object) -> Federation:
        built.append(Federation(tmp_path / f"sites-{len(built)}", store_url, **options))  # type: ignore[arg-type]  # passed on
        return built[-1]

    yield build
    for fed in built:
        fed.end()


@pytest.fixture
def fed(federation: Build) -> Federation:
    """Two sites, two passes."""
    return federation()


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    """The final model of a federation of the same shape that nothing happened to, on a folder."""
    known: dict[tuple[Sequence[str], int, int], bytes] = {}

    def model(like: Federation) -> bytes:
        shape = (tuple(like.sites), like.num_passes, like.stop_at)
        if shape not in known:
            root = tmp_path_factory.mktemp("undisturbed")
            (root / "store").mkdir()
            calm = Federation(
                root, (root / "store").as_uri(), sites=shape[0], num_passes=shape[1], stop_at=shape[2]
            )
            try:
                calm.finish()
                known[shape] = final_model(calm)
                check_ending(calm, wanted=known[shape], last=shape[2] if shape[2] >= 0 else None)
            finally:
                calm.end()
        return known[shape]

    return model
