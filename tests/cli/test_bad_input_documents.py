"""Documents and models that were damaged or come from the future: refused, never used, never overwritten."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.federation import Federation, Running, Site, await_that, unchanged

CUT = ": not valid JSON, perhaps cut short (line "
SHOW = "Do not delete anything; run `clif-stitch status` and show the line to the lead."


def give_up_soon(*sites: Site) -> None:
    """`run` tries for a day by default; these tests do not."""
    for site in sites:
        site.toml("root_seed = 7", 'root_seed = 7\ngive_up_after = "1s"')


def cut(data: bytes) -> bytes:
    return data[: len(data) // 2]


def newer(data: bytes) -> bytes:
    return re.sub(rb"(stitch\.[a-z_]+)/1", rb"\1/2", data, count=1)


def lines_with(run: Running, text: str) -> list[str]:
    return [line for line in run.out.read_text("utf-8").splitlines() if text in line]


@pytest.mark.parametrize("damage", [cut, lambda data: b"", lambda data: b"[1]"])
def test_a_damaged_seal_in_the_mirror_is_set_aside_and_taken_from_the_store_again(
    federation: Federation, damage: Callable[[bytes], bytes]
) -> None:
    federation.begin()
    assert federation.nu.call("step").code == 0
    seal = federation.nu.mirror / "sites/nu/pass_001/metrics.json"
    whole = seal.read_bytes()
    seal.write_bytes(damage(whole))
    with unchanged(federation.store):
        assert federation.nu.call("step").code == 0
    assert seal.read_bytes() == whole
    (aside,) = (federation.nu.mirror / "local/aside").glob("sites-nu-pass_001-*")
    assert (aside / "metrics.json").read_bytes() == damage(whole)
    federation.finish_well()


def test_a_damaged_seal_of_an_unsent_pass_is_trained_again(federation: Federation) -> None:
    """It was never in the store: nothing of it can be believed, and nothing of it is lost to others."""
    federation.begin()
    assert federation.nu.call("step").code == 0
    shutil.rmtree(federation.run / "sites/nu/pass_001")
    seal = federation.nu.mirror / "sites/nu/pass_001/metrics.json"
    seal.write_bytes(cut(seal.read_bytes()))
    federation.finish_well()


@pytest.mark.parametrize(
    ("damage", "code", "cause"),
    [(cut, 31, CUT), (newer, 32, ": stitch.metrics/2 is newer than this version reads (/1)")],
)
def test_a_global_seal_that_cannot_be_believed_stops_a_site_and_mended_lets_it_go_on(
    federation: Federation, damage: Callable[[bytes], bytes], code: int, cause: str
) -> None:
    give_up_soon(federation.nu)
    federation.begin()
    seal = federation.run / "global/pass_000/metrics.json"
    whole = seal.read_bytes()
    seal.write_bytes(damage(whole))
    with unchanged(federation.store, but=("/join/",)):
        for verb in ("run", "step"):
            said = federation.nu.call(verb)
            assert said.code == code
            assert said.cause.startswith("global/pass_000/metrics.json" + cause)
            assert said.todo == (
                SHOW if code == 31 else "Install the clif-stitch version that the lead uses."
            )
    assert not (federation.nu.mirror / "global/pass_000").exists()
    seal.write_bytes(whole)
    federation.finish_well()


@pytest.mark.parametrize(
    ("damage", "cause"), [(cut, CUT), (newer, ": stitch.metrics/2 is newer than this version reads (/1)")]
)
def test_a_sites_seal_that_cannot_be_believed_keeps_the_lead_waiting_and_named_once(
    federation: Federation, damage: Callable[[bytes], bytes], cause: str
) -> None:
    federation.begin()
    assert federation.nu.call("step").code == 0
    seal = federation.run / "sites/nu/pass_001/metrics.json"
    whole = seal.read_bytes()
    seal.write_bytes(damage(whole))
    with federation.lead.running() as lead:
        with unchanged(federation.store):
            line = lead.await_line("the pass of nu is rejected")
            assert f"rejected: sites/nu/pass_001/metrics.json{cause}" in line
            assert line.endswith(".)")  # what to do, in brackets
            beats = federation.run / "global/heartbeat.json"
            seen = beats.stat().st_mtime_ns
            await_that(lambda: beats.stat().st_mtime_ns != seen, "a beat later", or_end=lead)
        assert len(lines_with(lead, "is rejected")) == 1
        assert not (federation.run / "global/rounds").exists()
        seal.write_bytes(whole)
        assert lead.said().code == 0


def test_a_sites_own_seal_damaged_in_the_store_is_reported_to_it_and_left_alone(
    federation: Federation,
) -> None:
    give_up_soon(federation.nu)
    federation.begin()
    assert federation.nu.call("step").code == 0
    shutil.rmtree(federation.nu.mirror)
    seal = federation.run / "sites/nu/pass_001/metrics.json"
    whole = seal.read_bytes()
    seal.write_bytes(cut(whole))
    with unchanged(federation.store):
        said = federation.nu.call("run")
    assert said.code == 31
    assert said.cause.startswith("sites/nu/pass_001/metrics.json" + CUT)
    seal.write_bytes(whole)
    federation.finish_well()


def tamper(folder: Path) -> Callable[[], object]:
    """Other bytes of the same length under the model's name; gives the way back."""
    (model,) = folder.glob("model.*.json")
    whole = model.read_bytes()
    model.write_bytes(bytes(byte ^ 1 for byte in whole))
    return lambda: model.write_bytes(whole)


def test_a_tampered_global_is_never_opened_by_a_site(federation: Federation) -> None:
    give_up_soon(federation.nu)
    federation.begin()
    federation.nu.hooks("    base =", "    pathlib.Path('opened').touch()\n    base =")
    restore = tamper(federation.run / "global/pass_000")
    with unchanged(federation.store, but=("/join/",)):
        for verb in ("run", "step"):
            said = federation.nu.call(verb)
            assert said.code == 33
            assert re.fullmatch(
                r"global/pass_000/model\.[0-9a-f]{12}\.json: "
                "the stored model does not match its seal; it was not used",
                said.cause,
            )
            assert said.todo == "The store was altered: tell the lead, and keep the store as it is."
    assert not (federation.nu.root / "opened").exists()
    assert not (federation.nu.mirror / "global/pass_000").exists()
    restore()
    federation.finish_well()


def test_a_tampered_site_pass_never_reaches_the_leads_aggregate_hook(federation: Federation) -> None:
    federation.begin()
    assert federation.nu.call("step").code == 0
    restore = tamper(federation.run / "sites/nu/pass_001")
    with federation.lead.running() as lead:
        line = lead.await_line("the pass of nu is rejected")
        assert "does not match its seal; it was not used (The store was altered" in line
        assert not (federation.lead.mirror / "sites/nu/pass_001").exists()
        assert not (federation.run / "global/rounds").exists()
        restore()
        assert lead.said().code == 0


def test_a_model_altered_in_the_mirror_after_its_seal_is_not_sent(federation: Federation) -> None:
    """The store refuses this site's writes for a while, so that a sealed pass waits in the mirror."""
    federation.begin()
    assert federation.nu.call("step").code == 0
    shutil.rmtree(federation.run / "sites/nu/pass_001")
    (federation.nu.mirror / "sites/nu/pass_001/model.json").write_text("9", encoding="utf-8")
    federation.finish_well()  # it does not hash to its seal: set aside, and trained again
    assert list((federation.nu.mirror / "local/aside").glob("sites-nu-pass_001-*"))


@pytest.mark.parametrize(
    ("key", "kind"),
    [("global/manifest.json", "manifest"), ("global/DONE.json", "done")],
)
def test_a_document_from_the_future_asks_for_the_leads_version(
    federation: Federation, key: str, kind: str
) -> None:
    federation.finish_well()
    document = federation.run / key
    whole = document.read_bytes()
    document.write_bytes(newer(whole))
    shutil.rmtree(federation.nu.mirror)
    if kind == "manifest":
        (federation.run / "global/DONE.json").rename(federation.store / "kept")
    with unchanged(federation.store):
        said = federation.nu.call("run")
    assert said.code == 32
    assert said.cause == f"{key}: stitch.{kind}/2 is newer than this version reads (/1)"
    assert said.todo == "Install the clif-stitch version that the lead uses."
