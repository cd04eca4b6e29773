"""A run that signs, with real processes: it survives kills around a signature, and believes no other key."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import pytest

from stitch import layout
from stitch.client.keys import make_key
from stitch.layout import PassRef
from stitch.sync.signing import Signs
from stitch.wire import Seal
from tests.cli import inside
from tests.cli.federation import Said
from tests.e2e.breaking import Break
from tests.e2e.conftest import Build, Undisturbed, one_store
from tests.e2e.ending import check_ending
from tests.e2e.federation import RUN_ID, Federation

NU = PassRef(1, "nu")
QUORUM = """[policy]
require = "quorum"
min_participants = 1
open_timeout = "60s"
collect_timeout = "60s"
"""


def signed(fed: Federation, more: str = "") -> dict[str, Signs]:
    """Everybody has a key, and the lead's is in all settings."""
    keys = {site: make_key(fed.home(site)) for site in fed.sites}
    tables = f'\n[security]\nsign = true\nlead_key = "{keys[fed.sites[0]].fingerprint}"\n{more}'
    for site in fed.sites:
        toml = fed.home(site) / "stitch.toml"
        toml.write_text(toml.read_text(encoding="utf-8") + tables, encoding="utf-8")
    return keys


def call(fed: Federation, site: str, *words: str) -> Said:
    """What a person types."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("STITCH_")}
    return Said(*inside.call(words, folder=fed.home(site), environ=environ))


def listed(fed: Federation, key: str) -> None:
    fed.wait_for_seal(0)
    said = call(fed, "rush", "sites", "add", "nu", "--key", key)
    assert said.code == 0, said


def proven(fed: Federation) -> None:
    said = call(fed, "rush", "verify")
    assert said.code == 0, said


def forge(fed: Federation, ref: PassRef, *, by: Signs | None) -> None:
    """Another model with a seal that fits it, under the published names; signed by somebody, or not."""
    seal, model = json.loads(fed.read(ref.seal)), b"\0" * 40
    digest = hashlib.sha256(model).hexdigest()
    seal |= {"model_sha256": digest, "model_bytes": len(model)}
    seal["model_file"] = layout.stored_name("model", digest, ext="bin")
    data = json.dumps(seal, indent=2).encode() + b"\n"
    fed.write(ref.model(digest, "bin"), model)
    if by is not None:
        beside = layout.signature(ref.seal, hashlib.sha256(data).hexdigest())
        fed.write(beside, by.sign(data, place=f"{RUN_ID}/{ref.seal}"))
    fed.write(ref.seal, data)


def test_a_signed_run_comes_to_the_same_model(fed: Federation, undisturbed: Undisturbed) -> None:
    keys = signed(fed)
    lead, site = fed.start("rush"), fed.start("nu")
    listed(fed, keys["nu"].fingerprint)
    fed.finish(lead, site)
    check_ending(fed, wanted=undisturbed(fed))
    proven(fed)


@pytest.mark.parametrize(
    ("who", "at"),
    [
        ("nu", Break("push", r"nu/pass_001/metrics\..*\.sig\.json", "before")),
        ("nu", Break("push", r"nu/pass_001/metrics\..*\.sig\.json", "after")),
        ("rush", Break("push", r"global/pass_001/metrics\..*\.sig\.json", "after")),
        ("rush", Break("push", r"global/rounds/pass_001\.a0\..*\.sig\.json", "after")),
    ],
    ids=lambda value: value if isinstance(value, str) else f"{value.when} {value.key}",
)
def test_a_process_killed_between_a_signature_and_what_it_signs_goes_on(
    fed: Federation, undisturbed: Undisturbed, who: str, at: Break
) -> None:
    keys = signed(fed)
    actors = {site: fed.start(site, *([at] if site == who else [])) for site in fed.sites}
    listed(fed, keys["nu"].fingerprint)
    actors.pop(who).is_killed()
    fed.finish(*actors.values())
    check_ending(fed, wanted=undisturbed(fed))
    proven(fed)


@one_store
@pytest.mark.parametrize("forger", ["nobody", "a stranger"])
def test_nobody_trains_from_a_forged_global(fed: Federation, tmp_path: Path, forger: str) -> None:
    signed(fed)
    fed.start("rush")
    fed.wait_for_seal(0)
    forge(fed, PassRef(0), by=make_key(tmp_path) if forger == "a stranger" else None)
    site = fed.start("nu")
    site.ends(39)
    assert "global/pass_000/metrics.json is" in site.said
    assert fed.calls("nu") == []


@one_store
@pytest.mark.parametrize("why", ["is not signed", "signed by another key", "no key of nu is on the roster"])
def test_a_quorum_goes_on_without_a_pass_that_is_not_its_sites_own(
    federation: Build, tmp_path: Path, why: str
) -> None:
    fed = federation(num_passes=1)
    keys = signed(fed, QUORUM)
    lead = fed.start("rush", Break("push", r"sites/rush/pass_001/metrics\.json", "before"))
    fed.wait_for_seal(0)
    site = fed.start("nu")
    if why != "no key of nu is on the roster":
        listed(fed, keys["nu"].fingerprint)
    fed.wait_until(lambda: fed.has(NU.seal), "nu's pass")
    lead.is_killed()
    if why == "is not signed":
        forge(fed, NU, by=None)
    if why == "signed by another key":
        forge(fed, NU, by=make_key(tmp_path))
    fed.start("rush").ends(0)
    site.code()
    record = Seal.parse(fed.read(PassRef(1).seal), source="global 1").round
    assert record is not None
    assert [one.site for one in record.inputs] == ["rush"]
    (left,) = record.excluded
    assert left.site == "nu"
    assert why in left.reason


@one_store
def test_everybody_waits_for_a_pass_whose_key_is_not_listed_and_goes_on_when_it_is(
    fed: Federation, undisturbed: Undisturbed
) -> None:
    keys = signed(fed)
    lead, site = fed.start("rush"), fed.start("nu")
    fed.hears("rush", "no key of nu is on the roster")
    assert not fed.has(PassRef(1).seal)
    listed(fed, keys["nu"].fingerprint)
    fed.finish(lead, site)
    check_ending(fed, wanted=undisturbed(fed))
    proven(fed)
