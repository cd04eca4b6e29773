"""`clif-stitch replay`, as a user calls it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.cli.federation import Federation, Site, build, snapshot

OTHER = '''"""The largest instead of the mean."""
import json
import pathlib


def largest(site_dir, out_path, global_path):
    models = [json.loads(path.read_text()) for path in pathlib.Path(site_dir).glob("*/*/model.json")]
    pathlib.Path(out_path).write_text(json.dumps(max(models) + 100))
    return {"spread": max(models) - min(models), "base": json.loads(pathlib.Path(global_path).read_text())}
'''


@pytest.fixture(scope="module")
def once(tmp_path_factory: pytest.TempPathFactory) -> Federation:
    """One federation of two rounds, whose sites train different models and whose hook has a metric."""
    made = build(tmp_path_factory.mktemp("finished"))
    for site, step in ((made.lead, 1), (made.nu, 3)):
        site.hooks("base + 1", f"base + {step}")
        text = (site.root / "code/hooks.py").read_text(encoding="utf-8")
        site.write("code/hooks.py", text.replace("return {}", 'return {"sites": len(models)}'))
        site.toml("num_passes = 1", "num_passes = 2")
    lead, nu = made.finish()
    assert (lead.code, nu.code) == (0, 0), (lead, nu)
    return made


@pytest.fixture
def finished(once: Federation, tmp_path: Path) -> Federation:
    """A copy of it, to work in."""
    for name in ("rush", "nu", "store"):
        shutil.copytree(once.store.parent / name, tmp_path / name)
    return Federation(Site(tmp_path / "rush"), Site(tmp_path / "nu"), tmp_path / "store")


def values(folder: Path) -> list[float]:
    return [json.loads(path.read_bytes()) for path in sorted(folder.glob("pass_*/model.json"))]


def test_without_a_site_every_round_is_made_from_the_others(finished: Federation) -> None:
    """Global 0 is 1; each global is 2 above its base; rush alone would be 1 above it."""
    before = snapshot(finished.store)
    mirror = snapshot(finished.lead.mirror)
    said = finished.lead.call("replay", "--without", "nu")
    assert said.code == 0, said
    assert max(len(line) for line in said.out.splitlines()) <= 80
    folder = finished.lead.root / "runs/icu/replay-without-nu-from-1"
    assert values(folder) == [2.0, 4.0]
    report = json.loads((folder / "pass_002/metrics.json").read_text(encoding="utf-8"))
    assert (report["kind"], report["without"], report["inputs"], report["n_samples"]) == (
        "stitch.replay/1",
        "nu",
        ["rush"],
        50,
    )
    assert (report["metrics"], report["run"]["metrics"]) == ({"sites": 1.0}, {"sites": 2.0})
    assert "first-order" in said.out
    assert (folder / "pass_001/aggregate.log").is_file()
    assert snapshot(finished.store) == before
    assert snapshot(finished.lead.mirror) == mirror


def test_another_hook_is_given_what_the_lead_was_given(finished: Federation) -> None:
    finished.nu.write("code/other.py", OTHER)
    said = finished.nu.call(
        "replay", "--aggregate", "code/other.py:largest", "--from", "2", "--to", "what-if"
    )
    assert said.code == 0, said
    assert values(finished.nu.root / "what-if") == [106.0]
    report = json.loads((finished.nu.root / "what-if/pass_002/metrics.json").read_text(encoding="utf-8"))
    assert (report["aggregate"], report["metrics"]) == (
        "code/other.py:largest",
        {"spread": 2.0, "base": 3.0},
    )
    assert "spread" in said.out
    assert finished.nu.call("replay", "--aggregate", "code/other.py:largest").code == 0
    assert values(finished.nu.root / "runs/icu/replay-with-code-other-py-largest-from-1") == [104.0, 106.0]


def test_a_replay_is_never_written_over(finished: Federation) -> None:
    assert finished.lead.call("replay", "--without", "nu", "--to", "one").code == 0
    before = snapshot(finished.lead.root / "one")
    again = finished.lead.call("replay", "--without", "nu", "--to", "one")
    assert (again.code, "is there already" in again.cause) == (2, True)
    assert snapshot(finished.lead.root / "one") == before


@pytest.mark.parametrize(
    ("words", "cause"),
    [
        ((), "say what to change"),
        (("--without", "nu", "--aggregate", "code/hooks.py:aggregate"), "say what to change"),
        (("--without", "mayo"), "mayo is no site of this run"),
        (("--without", "nu", "--from", "3"), "there is no round 3 in this run"),
        (("--aggregate", "code/gone.py:fn"), 'the hook "code/gone.py:fn" names a file that does not exist'),
        (("--without", "nu", "--to", "stitch_store/icu/global/x"), ""),
        (("--without", "nu", "--to", "../store/icu/what-if"), ""),
    ],
)
def test_what_cannot_be_asked_is_refused_and_nothing_is_made(
    once: Federation, words: tuple[str, ...], cause: str
) -> None:
    before = snapshot(once.store.parent, but=("__pycache__",))
    said = once.nu.call("replay", *words)
    assert said.code == 2
    assert cause in said.cause if cause else "is not apart from" in said.cause
    assert snapshot(once.store.parent, but=("__pycache__",)) == before


def test_an_input_that_was_altered_is_not_used(finished: Federation) -> None:
    (path,) = (finished.run / "sites/rush/pass_002").glob("model.*.json")
    path.write_text("999", encoding="utf-8")
    assert finished.lead.call("replay", "--without", "nu").code == 33
