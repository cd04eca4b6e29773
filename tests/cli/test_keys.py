"""`clif-stitch keys`, and a run that signs, as its people see it."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import stat
import sys

import pytest

from tests.cli.federation import Federation, Site, unchanged

KEY = "keys/signing.pem"


def fingerprint(site: Site) -> str:
    said = site.call("keys")
    assert (said.code, said.err) == (0, ""), said
    assert re.fullmatch("[0-9a-f]{64}\n", said.out)
    return said.out.strip()


def sign(federation: Federation) -> None:
    """Both make a key; the lead's is in both settings."""
    for site in (federation.lead, federation.nu):
        assert site.call("keys", "init").code == 0
    lead_key = fingerprint(federation.lead)
    for site in (federation.lead, federation.nu):
        site.toml("[transfer]", f'[security]\nsign = true\nlead_key = "{lead_key}"\n[transfer]')


def listed(federation: Federation) -> None:
    """The run has begun, and the lead was told nu's fingerprint."""
    sign(federation)
    federation.begin()
    said = federation.lead.call("sites", "add", "nu", "--key", fingerprint(federation.nu))
    assert (said.code, said.err) == (0, ""), said


def test_a_key_is_made_once_and_only_its_fingerprint_is_shown(federation: Federation) -> None:
    said = federation.nu.call("keys", "init")
    assert (said.code, said.err) == (0, ""), said
    assert fingerprint(federation.nu) in said.out
    assert "sites add nu --key" in said.out
    assert all(len(line) <= 80 for line in said.out.splitlines()[2:])
    private = (federation.nu.root / KEY).read_text(encoding="utf-8")
    assert "PRIVATE" in private
    assert private.splitlines()[1] not in said.out
    assert (federation.nu.root / "keys/.gitignore").read_text(encoding="utf-8") == "*\n"
    with unchanged(federation.nu.root):
        again = federation.nu.call("keys", "init")
    assert again.code == 2
    assert "there is a key already" in again.cause


def test_a_full_disk_leaves_no_half_a_key_that_stands_in_the_way(
    federation: Federation, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        said = federation.nu.call("keys", "init")
    assert said.code == 26
    assert "the disk is full" in said.cause
    assert not (federation.nu.root / KEY).exists()
    assert federation.nu.call("keys", "init").code == 0


def test_the_lead_is_shown_what_belongs_into_the_settings(federation: Federation) -> None:
    said = federation.lead.call("keys", "init")
    assert f'lead_key = "{fingerprint(federation.lead)}"' in said.out


def test_without_a_key_it_says_how_to_make_one(federation: Federation) -> None:
    said = federation.nu.call("keys")
    assert (said.code, said.cause, said.todo) == (
        2, "there is no signing key here", "Make one: clif-stitch keys init",
    )  # fmt: skip


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such rights: the folder's hold")
def test_a_key_that_others_can_read_is_refused(federation: Federation) -> None:
    federation.nu.call("keys", "init")
    file = federation.nu.root / KEY
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    file.chmod(0o644)
    said = federation.nu.call("keys")
    assert said.code == 2
    assert "others can read keys/signing.pem" in said.cause
    assert "chmod 600" in said.todo


@pytest.mark.parametrize("text", ["", "no key"])
def test_a_file_that_is_no_key_is_refused_and_not_shown(federation: Federation, text: str) -> None:
    federation.nu.call("keys", "init")
    (federation.nu.root / KEY).write_text(text, encoding="utf-8")
    said = federation.nu.call("keys")
    assert (said.code, said.cause) == (2, "keys/signing.pem is no private key")


@pytest.mark.parametrize("key", ["", "ab", "AB" * 32, "ab" * 33])
def test_what_is_no_fingerprint_is_listed_nowhere(federation: Federation, key: str) -> None:
    federation.begin()
    with unchanged(federation.store):
        said = federation.lead.call("sites", "add", "nu", "--key", key)
    assert said.code == 2
    assert "64 hex digits" in said.cause


def test_signing_needs_the_leads_key_in_the_settings(federation: Federation) -> None:
    federation.nu.toml("[transfer]", "[security]\nsign = true\n[transfer]")
    said = federation.nu.call("step")
    assert said.code == 2
    assert "lead_key is missing" in said.cause
    federation.nu.toml("sign = true", 'sign = true\nlead_key = "not hex"')
    said = federation.nu.call("step")
    assert said.code == 2
    assert "lead_key" in said.cause


def test_a_site_that_does_not_sign_takes_no_part_in_a_run_that_does(federation: Federation) -> None:
    sign(federation)
    federation.begin()
    federation.nu.write(
        "stitch.toml",
        (federation.nu.root / "stitch.toml").read_text("utf-8").replace("sign = true", "sign = false"),
    )
    said = federation.nu.call("step")
    assert said.code == 2
    assert "security.sign" in said.cause


def test_a_signed_run_ends_is_proven_and_shows_its_signers(federation: Federation) -> None:
    listed(federation)
    federation.finish_well()
    said = federation.lead.call("verify")
    assert (said.code, said.err) == (0, ""), said
    assert f"the lead's key is {fingerprint(federation.lead)[:12]}" in said.out
    proof = json.loads(federation.lead.call("verify", "--json").out)
    assert proof["lead_key"] == fingerprint(federation.lead)
    lines = json.loads(federation.lead.call("audit", "--json").out)["lines"]
    signers = {line["path"]: line["signer"] for line in lines}
    assert signers["global/pass_001/metrics.json"] == fingerprint(federation.lead)
    assert signers["sites/nu/pass_001/metrics.json"] == fingerprint(federation.nu)
    assert signers["sites/nu/join/0001.json"] == fingerprint(federation.nu)
    assert signers["global/orchestration.json"] == ""
    assert federation.nu.call("status").code == 0
    assert federation.lead.call("replay", "--without", "nu").code == 0
    sent = [path for path in federation.store.rglob("*") if path.is_file()]
    assert not any(b"PRIVATE" in path.read_bytes() for path in sent)
    (federation.lead.root / KEY).unlink()
    assert federation.lead.call("verify").code == 0, "an auditor has no key"


def test_verify_names_what_is_signed_by_another_key(federation: Federation) -> None:
    listed(federation)
    federation.finish_well()
    stranger = "0" * 64
    federation.lead.toml(fingerprint(federation.lead), stranger)
    said = federation.lead.call("verify")
    assert said.code == 39
    assert "global/manifest.json is signed by another key" in said.cause


def test_a_site_trains_from_no_global_without_a_signature(federation: Federation) -> None:
    sign(federation)
    federation.begin()
    (signature,) = federation.run.glob("global/pass_000/metrics.*.sig.json")
    signature.unlink()
    with unchanged(federation.store, but=("join",)):
        said = federation.nu.call("step")
    assert (said.code, said.cause) == (39, "global/pass_000/metrics.json is not signed")


def test_a_review_shows_the_signature_that_leaves_with_a_pass(federation: Federation) -> None:
    listed(federation)
    file = federation.nu.root / "config/config.json"
    federation.nu.write(
        "config/config.json", json.dumps(json.loads(file.read_text("utf-8")) | {"outbox": "review"})
    )
    assert federation.nu.call("step").code == 0
    (held,) = json.loads(federation.nu.call("outbox", "show", "--json").out)["passes"]
    assert federation.nu.call("outbox", "approve", "1").code == 0
    assert federation.nu.call("step").code == 0
    folder = federation.run / "sites/nu/pass_001"
    assert {path.name for path in folder.iterdir()} == {
        one["key"].rpartition("/")[2] for one in held["files"]
    }
    for one in held["files"]:
        data = (federation.store / one["key"]).read_bytes()
        assert (len(data), hashlib.sha256(data).hexdigest()) == (one["bytes"], one["sha256"])
