"""`clif-stitch commitment`: a site shows an auditor which data its passes were bound to."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest

from tests.cli.federation import Federation, Site, unchanged


@pytest.fixture
def committed(federation: Federation) -> Federation:
    """A run that commits, ended; each site has two tables."""
    for site in (federation.lead, federation.nu):
        site.toml("[transfer]", "[integrity]\ncommit = true\n[transfer]")
        site.write("data/vitals.csv", "id,hr\n1,80\n")
        site.write("data/deep/labs.csv", "id,lactate\n1,2.0\n")
    federation.finish_well()
    return federation


def declared(federation: Federation) -> str:
    seal: dict[str, Any] = json.loads((federation.run / "sites/nu/pass_001/metrics.json").read_bytes())
    return str(seal["dataset_root"])


def test_the_data_are_compared_with_what_each_pass_declared_also_after_the_end(committed: Federation) -> None:
    with unchanged(committed.store):
        said = committed.nu.call("commitment")
    assert (said.code, said.err) == (0, ""), said
    assert said.out.splitlines() == [
        f"the data as they are now: {declared(committed)}",
        "pass 1: the same data",
    ]
    committed.nu.write("data/vitals.csv", "id,hr\n1,81\n")
    said = committed.nu.call("commitment")
    assert said.code == 35
    assert f"pass 1: OTHER data, {declared(committed)}" in said.out
    assert "not those that this site's newest pass declared" in said.cause


def test_one_file_is_opened_and_checked_with_the_formula_of_the_protocol(committed: Federation) -> None:
    said = committed.nu.call("commitment", "deep/labs.csv")
    assert (said.code, said.err) == (0, ""), said
    found = json.loads(said.out)
    assert (found["kind"], found["name"], found["leaves"]) == ("stitch.opening/1", "deep/labs.csv", 2)
    digest = hashlib.sha256(b"id,lactate\n1,2.0\n").digest()
    assert found["sha256"] == digest.hex()
    name = b"deep/labs.csv"
    episode = hashlib.sha256(b"\x00" + len(name).to_bytes(8, "big") + name + digest).digest()
    at = hashlib.sha256(b"\x01" + bytes.fromhex(found["salt"]) + episode).digest()
    (step,) = found["path"]
    assert step["side"] == "right"
    at = hashlib.sha256(b"\x02" + at + bytes.fromhex(step["hash"])).digest()
    root = hashlib.sha256(b"\x03" + (2).to_bytes(8, "big") + at).hexdigest()
    assert root == found["root"] == declared(committed)
    secret = (committed.nu.mirror / "local/dataset/salt").read_bytes()
    assert secret.hex() not in said.out
    assert "vitals" not in said.out


def no_commit(site: Site) -> None:
    site.toml("commit = true", "commit = false")


def no_salt(site: Site) -> None:
    (site.mirror / "local/dataset/salt").unlink()


@pytest.mark.parametrize(
    ("spoil", "words", "cause"),
    [
        (no_commit, (), "this run does not commit to data"),
        (no_salt, (), "there is no salt here"),
        (lambda site: None, ("no-such.csv",), "'no-such.csv' is none of the contents"),
    ],
)
def test_what_cannot_be_shown_is_said(
    committed: Federation, spoil: Any, words: tuple[str, ...], cause: str
) -> None:
    spoil(committed.nu)
    said = committed.nu.call("commitment", *words)
    assert said.code == 2
    assert cause in said.cause
    assert said.todo
