"""`initial_model = "run:..."`: a model of an earlier run, with the signature that it must have."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stitch import layout
from stitch.client import Client, Setup
from stitch.client.keys import make_key
from stitch.config.settings import Security
from stitch.errors import ConfigError, SignatureRefused
from stitch.layout import PassRef
from stitch.loops.lead import Lead
from stitch.wire import Manifest
from tests.unit.loops.actors import finish
from tests.unit.loops.signed import Run, forged, over


@pytest.fixture
def earlier(tmp_path: Path) -> Run:
    """A signed run that has ended."""
    run = Run(tmp_path)
    run.begin()
    finish(run.loops())
    return run


def later(earlier: Run, **changes: Any) -> Client:
    """The lead of a run that begins with the model of the one before."""
    settings = replace(
        earlier.lead.settings, run_id="second", initial_model="run:trial/pass_001", num_passes=1, **changes
    )
    lanes = replace(over(earlier.lead, earlier.actors.inner), run_id="second")
    return Client(settings, Setup(lanes=lanes, runner=earlier.lead.runner))


def begin(client: Client) -> bytes:
    """Begins the run; the model that it begins with."""
    try:
        Lead(client).step()
        sealed = client.mirror.sealed(PassRef(0))
        assert sealed is not None
        return sealed.model.read_bytes()
    finally:
        client.close()


def forget(earlier: Run) -> None:
    """On another machine, or after the mirror was wiped."""
    shutil.rmtree(earlier.lead.mirror.root)


def model(earlier: Run) -> bytes:
    sealed = earlier.lead.mirror.sealed(PassRef(1))
    assert sealed is not None
    return sealed.model.read_bytes()


def test_what_the_earlier_lead_signed_is_taken(earlier: Run) -> None:
    wanted = model(earlier)
    forget(earlier)
    assert begin(later(earlier)) == wanted


@pytest.mark.parametrize("signer", ["", "nu"])
def test_what_it_did_not_sign_is_refused(earlier: Run, signer: str) -> None:
    data = forged(earlier, PassRef(1))
    if signer:
        earlier.sign(PassRef(1).seal, data, by=earlier.keys[signer])
    forget(earlier)
    with pytest.raises(SignatureRefused, match=r"global/pass_001/metrics\.json") as refused:
        begin(later(earlier))
    assert refused.value.exit_code == 39


def test_a_store_that_now_calls_the_run_unsigned_is_not_believed_where_it_was_seen_before(
    earlier: Run,
) -> None:
    """Whoever writes everything can take signatures and the word for them away."""
    forged(earlier, PassRef(1))
    manifest = Manifest.parse(earlier.read(layout.manifest()), source="")
    plain = {name: value for name, value in manifest.settings.items() if name != "security"}
    earlier.put(layout.manifest(), manifest.model_copy(update={"settings": plain}).dump())
    shutil.rmtree(earlier.lead.mirror.root / "global/pass_001")
    with pytest.raises(SignatureRefused):
        begin(later(earlier))


def test_a_lead_with_a_new_key_goes_on_from_what_its_own_mirror_knows(earlier: Run, tmp_path: Path) -> None:
    """The old key was lost: the run that it signed is still known on this machine."""
    wanted = model(earlier)
    (tmp_path / "rush/keys/signing.pem").unlink()
    fresh = Security(sign=True, lead_key=make_key(tmp_path / "rush").fingerprint)
    assert begin(later(earlier, security=fresh)) == wanted


def test_where_nothing_says_whose_signature_it_must_be_it_says_so(earlier: Run) -> None:
    forget(earlier)
    with pytest.raises(ConfigError, match="run trial was signed, and nothing here says by whom"):
        begin(later(earlier, security=Security()))


def test_a_signed_run_that_begins_with_an_unsigned_one_s_model_says_so(tmp_path: Path) -> None:
    run = Run(tmp_path)
    signing = run.changes.pop("security")
    for site in run.clients:
        run.start(site)
    finish(run.loops())
    client = later(run, security=signing)
    begin(client)
    log = (client.settings.runs_dir / "run.log").read_text(encoding="utf-8")
    assert "run trial was not signed: nothing proves who made the starting model" in log


def test_a_run_that_is_not_there_is_named(earlier: Run) -> None:
    client = later(earlier)
    client.settings = replace(client.settings, initial_model="run:nowhere/pass_001")
    with pytest.raises(ConfigError, match="there is no run nowhere in this store"):
        begin(client)
