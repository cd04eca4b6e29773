"""An auditor on another machine, whose token only reads, proves a finished run; nothing altered passes."""

from __future__ import annotations

import json
import os
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from stitch.testing.azurite import Azurite
from tests.cli import inside
from tests.cli.federation import Said
from tests.e2e.federation import REPO, RUN_ID, Federation


@dataclass(frozen=True)
class Auditor:
    """A project folder on a machine that took no part; its mirror is empty."""

    home: Path

    def call(self, *words: str) -> Said:
        environ = {name: value for name, value in os.environ.items() if not name.startswith("STITCH_")}
        environ |= {"PYTHONPATH": str(REPO), "COLUMNS": "80"}
        return Said(*inside.call(words, folder=self.home, environ=environ))


@pytest.fixture(scope="module", params=["folder", "azurite"])
def finished(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Federation]:
    """Two sites, two passes, all ended, on each store; whoever alters it puts it back."""
    root = tmp_path_factory.mktemp("finished")
    (root / "store").mkdir()
    url = (root / "store").as_uri()
    if request.param == "azurite":
        server: Azurite = request.getfixturevalue("azurite")
        url = server.container_url(server.new_container())
    fed = Federation(root / "sites", url)
    try:
        fed.finish()
        yield fed
    finally:
        fed.end()


@pytest.fixture
def auditor(finished: Federation, request: pytest.FixtureRequest, tmp_path: Path) -> Auditor:
    """May list and read, and nothing else."""
    url = finished.url
    if url.startswith("http"):
        server: Azurite = request.getfixturevalue("azurite")
        url = server.container_url(url.partition("?")[0].rpartition("/")[2], "rl")
    home = Federation(tmp_path / "audit", finished.url, sites=("nu",)).home("nu")
    (home / "stitch.toml").write_bytes((finished.home("rush") / "stitch.toml").read_bytes())
    (home / ".env").write_text(f'STITCH_STORE="{url}"\n', encoding="utf-8")
    return Auditor(home)


def test_it_holds_and_every_global_is_made_again(finished: Federation, auditor: Auditor) -> None:
    before = {path: finished.read(path) for path in finished.paths()}
    said = auditor.call("verify", "--rerun", "--json")
    assert said.code == 0, said
    proof = json.loads(said.out)
    assert (proof["run_id"], proof["holds"], proof["complete"]) == (RUN_ID, True, True)
    assert [(one["pass_id"], one["rerun"]) for one in proof["passes"]] == [(0, False), (1, True), (2, True)]
    listed = json.loads(auditor.call("audit", "--json").out)
    assert {line["path"] for line in listed["lines"]} == set(before)
    assert {path: finished.read(path) for path in finished.paths()} == before
    assert not (auditor.home / "stitch_store").exists()


def test_after_any_byte_is_flipped_it_fails(finished: Federation, auditor: Auditor) -> None:
    """One byte of each kind of file that the chain covers; tests/property tries every byte."""
    covered = [path for path in finished.paths() if _covered(path)]
    assert len(covered) == 1 + 2 + 3 + 3 + 2 + 4 + 4 + 1  # manifest, verdicts, seals, models, states, DONE
    noted = json.loads(auditor.call("verify", "--json").out)["transcript_sha256"]
    for path in [*covered[:: max(1, len(covered) // 4)], "global/DONE.json"]:
        data = finished.read(path)
        finished.write(path, data[:-9] + bytes([data[-9] ^ 1]) + data[-8:])
        said = auditor.call("verify", "--rerun", "--expect", noted)
        assert 30 <= said.code < 40, (path, said)
        finished.write(path, data)
    assert auditor.call("verify", "--expect", noted).code == 0


def test_a_what_if_stays_beside_the_run(finished: Federation, auditor: Auditor) -> None:
    before = {path: finished.read(path) for path in finished.paths()}
    said = auditor.call("replay", "--without", "nu", "--from", "2")
    assert said.code == 0, said
    made = auditor.home / "runs" / RUN_ID / "replay-without-nu-from-2" / "pass_002"
    (theirs,) = [path for path in before if path.startswith("sites/rush/pass_002/model.")]
    (state,) = [path for path in before if path.startswith("global/pass_001/outer_state.")]
    alone, earlier = array("d", before[theirs]), array("d", before[state])
    wanted = array("d", [own + 0.25 * mean for own, mean in zip(alone, earlier, strict=True)])
    assert (made / "model.bin").read_bytes() == wanted.tobytes(), "the one model left, after the mean before"
    assert {path: finished.read(path) for path in finished.paths()} == before


def _covered(path: str) -> bool:
    last = path.rpartition("/")[2]
    return (
        path.startswith(("global/pass_", "global/rounds/"))
        or "/pass_" in path.replace("events/pass_", "")
        or last in ("manifest.json", "DONE.json")
    )
