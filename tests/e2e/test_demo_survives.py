"""`clif-stitch demo`, its lead and a site killed on the way, twice: the same command, the same model."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from filelock import FileLock

from stitch.layout import PassRef
from stitch.store import StoreOptions, open_store
from stitch.store.base import Store
from tests.e2e.federation import until
from tests.e2e.test_demo import Demo, sha256_in

PASSES = 6
DEATHS = ((2, ("rush", "nu")), (4, ("rush", "uchicago")))
_WITHIN_S = 240.0

pytestmark = pytest.mark.timeout(900)


def await_seal(store: Store, number: int) -> None:
    key = f"demo/{PassRef(number).seal}"
    until(lambda: store.stat(key), f"global {number}", within_s=_WITHIN_S)


@pytest.fixture(scope="module")
def wanted(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> str:
    """The final model's hash of a demo that nothing happens to; made once for all workers of a test run."""
    meeting = tmp_path_factory.getbasetemp()
    if hasattr(request.config, "workerinput"):
        meeting = meeting.parent
    known = meeting / f"undisturbed-demo-{PASSES}.txt"
    with FileLock(f"{known}.lock"):
        if not known.exists():
            code, text = Demo(tmp_path_factory.mktemp("undisturbed"), ("--passes", str(PASSES))).call()
            assert code == 0, text
            known.write_text(sha256_in(text), encoding="utf-8")
    return known.read_text(encoding="utf-8")


@pytest.fixture
def demo(tmp_path: Path, store_url: str) -> Iterator[Demo]:
    made = Demo(tmp_path, ("--passes", str(PASSES), "--store", store_url))
    yield made
    for process in made.processes():
        process.kill()


def test_the_lead_and_a_site_are_killed_and_the_same_command_comes_to_the_same_model(
    demo: Demo, wanted: str, store_url: str
) -> None:
    store = open_store(store_url, options=StoreOptions())
    for number, victims in DEATHS:
        running = demo.start()
        await_seal(store, number)
        for process in [demo.process_of(running, site) for site in victims]:
            process.kill()
        running.communicate(timeout=_WITHIN_S)
        assert running.returncode == 1
        assert demo.processes() == []
        assert store.stat("demo/global/DONE.json") is None
    code, text = demo.call()
    assert code == 0, text
    assert sha256_in(text) == wanted
    assert len(
        [entry for entry in store.list("demo/global/pass_") if entry.key.endswith("metrics.json")]
    ) == (PASSES + 1)
