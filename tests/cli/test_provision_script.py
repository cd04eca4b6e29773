"""`provision --print`: what a cloud team runs instead comes to the same containers, policies and kits."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from azure.storage.blob import BlobServiceClient

from stitch.config.environment import parse_env
from stitch.errors import StoreDenied
from stitch.store import StoreOptions, open_store
from stitch.store.azure_sas import read_sas
from stitch.testing.azurite import Azurite
from tests.cli.az import az_on_path
from tests.cli.federation import Federation, Site

pytestmark = pytest.mark.skipif(os.name == "nt", reason="the script is for a POSIX shell (Azure Cloud Shell)")


class CloudTeam:
    """Whoever has the key, the Azure CLI and a shell, and not clif-stitch."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def run(self, script: str) -> subprocess.CompletedProcess[str]:
        (self.folder / "script.sh").write_text(script, encoding="utf-8")
        environ = {"PATH": f"{self.folder}{os.pathsep}{os.environ['PATH']}"}
        return subprocess.run(
            ["sh", "script.sh"],
            cwd=self.folder,
            env=environ,
            capture_output=True,
            encoding="utf-8",
            timeout=120,
            check=False,
        )


@pytest.fixture
def team(tmp_path: Path, azurite: Azurite) -> Iterator[CloudTeam]:
    folder = tmp_path / "cloud-team"
    folder.mkdir()
    with az_on_path(folder, azurite):
        yield CloudTeam(folder)


@pytest.fixture
def lead(federation: Federation, azurite: Azurite) -> Site:
    federation.lead.environ = {"AZURE_STORAGE_ACCOUNT": azurite.endpoint}
    return with_run(federation.lead, 'run_id = "icu"')


def with_run(lead: Site, before: str, run: str = "") -> Site:
    lead.toml(before, f'run_id = "{run or "icu-" + secrets.token_hex(4)}"')
    return lead


def run_of(site: Site) -> str:
    return (site.root / "stitch.toml").read_text(encoding="utf-8").splitlines()[0].split('"')[1]


def printed(lead: Site, *words: str) -> str:
    said = lead.call("provision", *words, "--print")
    assert (said.code, said.err) == (0, ""), said
    assert "sig=" not in said.out
    return said.out


def shape(azurite: Azurite, run: str) -> dict[str, object]:
    """A run's containers, marks and policies, without what is drawn by lot."""
    found: dict[str, object] = {}
    with BlobServiceClient.from_connection_string(
        azurite.connection_string, api_version="2026-06-06"
    ) as service:
        for one in service.list_containers(name_starts_with=run, include_metadata=True):
            kept = service.get_container_client(one.name).get_container_access_policy()["signed_identifiers"]
            held = {p.id.rpartition("_")[0]: p.access_policy.permission for p in kept or ()}
            marks = {name: value.replace(run, "RUN") for name, value in (one.metadata or {}).items()}
            found[one.name.replace(run, "RUN")] = (marks, held)
    return found


def kits(folder: Path, run: str) -> dict[str, object]:
    """What every kit opens: places, and purposes of policies."""
    found: dict[str, object] = {}
    for kit in sorted((folder / "kits").glob("*.env")):
        for name, value in parse_env(kit.read_text(encoding="utf-8"), file=kit.name).items():
            place, _, token = value.partition("?")
            facts = read_sas(token)
            policy = facts.policy.rpartition("_")[0] if facts else ""
            found[f"{kit.name} {name}"] = (place.replace(run, "RUN"), policy)
    return found


def test_the_script_comes_to_the_same_as_the_command(lead: Site, team: CloudTeam, azurite: Azurite) -> None:
    """Also for more sites than Azure keeps policies for."""
    lead.toml('["rush", "nu"]', '["rush", "nu", "uc", "mayo", "emory", "duke"]')
    script = printed(lead, "--days", "30")
    assert not (lead.root / "kits").exists()
    assert azurite.account_key not in script
    done = team.run(script)
    assert done.returncode == 0, done.stderr
    theirs = run_of(lead)
    lead = with_run(lead, f'run_id = "{theirs}"')
    lead.environ = {"AZURE_STORAGE_CONNECTION_STRING": azurite.connection_string}
    assert lead.call("provision", "--days", "30").code == 0
    ours = run_of(lead)
    assert shape(azurite, theirs) == shape(azurite, ours)
    assert kits(team.folder, theirs) == kits(lead.root, ours)
    for path in sorted((lead.root / "kits").iterdir()):
        other = team.folder / "kits" / path.name
        assert other.stat().st_mode & 0o077 == 0
        if path.suffix == ".md":
            texts = [one.read_text(encoding="utf-8").splitlines() for one in (path, other)]
            kept = [[line for line in text if "valid until" not in line] for text in texts]
            assert [line.replace(ours, theirs) for line in kept[0]] == kept[1]
    lead = with_run(lead, f'run_id = "{ours}"', theirs)
    done = team.run(printed(lead, "--revoke", "emory"))
    gone = [line.rpartition("_")[0].replace(theirs, "RUN") for line in done.stdout.splitlines()]
    assert gone == [
        *("withdrawn: RUN-global shared", "withdrawn: RUN-emory site", "withdrawn: RUN-emory beat"),
    ]


def test_command_and_script_take_turns(lead: Site, team: CloudTeam, azurite: Azurite) -> None:
    """What one has made the other renews and revokes; a revoked token stays dead."""
    run = run_of(lead)
    assert team.run(printed(lead)).returncode == 0
    first = parse_env((team.folder / "kits/nu.env").read_text(encoding="utf-8"), file="nu.env")
    old = open_store(first["STITCH_STORE_SITE"], options=StoreOptions())
    assert old.stat("a") is None
    before = shape(azurite, run)
    assert team.run(printed(lead)).returncode == 0
    assert shape(azurite, run) == before
    done = team.run(printed(lead, "--revoke", "nu"))
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("withdrawn: ") == 3
    with pytest.raises(StoreDenied):
        old.stat("a")
    assert not (team.folder / "kits" / "nu.env").exists()
    done = team.run(printed(lead))
    assert (done.returncode, "none for nu: revoked" in done.stdout) == (0, True), done.stderr
    assert not (team.folder / "kits" / "nu.env").exists()
    lead.environ = {"AZURE_STORAGE_CONNECTION_STRING": azurite.connection_string}
    said = lead.call("provision")
    assert "none for nu: revoked" in said.out
    done = team.run(printed(lead, "--sites", "nu"))
    assert done.returncode == 0, done.stderr
    assert shape(azurite, run) == before
    assert lead.call("provision").code == 0
    assert shape(azurite, run) == before
    with pytest.raises(StoreDenied):
        old.stat("a")
    shutil.rmtree(lead.root / "kits")


def test_the_script_stops_at_a_container_of_another_run(
    lead: Site, team: CloudTeam, azurite: Azurite
) -> None:
    azurite.new_container(f"{run_of(lead)}-nu")
    done = team.run(printed(lead))
    assert done.returncode == 1
    assert "is there already, and not for" in done.stderr
    assert not (team.folder / "kits").exists()
    assert list(shape(azurite, run_of(lead))) == ["RUN-nu"]  # looked before it made


def test_a_script_that_cannot_ask_does_not_say_that_all_is_revoked(
    lead: Site, team: CloudTeam, azurite: Azurite
) -> None:
    done = team.run(printed(lead, "--revoke", "nu"))
    assert done.returncode == 1
    assert f"there is no container {run_of(lead)}-nu" in done.stderr
    (team.folder / "az").write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
    assert team.run(printed(lead, "--revoke", "nu")).returncode == 1


def test_on_azure_itself_tokens_are_for_https_alone(lead: Site) -> None:
    lead.environ = {}
    script = printed(lead, "--account", "hospitalacct")
    assert "https=--https-only\n" in script
    assert "export AZURE_STORAGE_ACCOUNT=hospitalacct\n" in script
    assert "ACCOUNT_URL" not in script
