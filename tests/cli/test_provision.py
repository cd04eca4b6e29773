"""`clif-stitch provision` as a lead types it: what it prints, what it leaves in `kits/`, what it refuses."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from pathlib import Path

import pytest
from azure.storage.blob import BlobServiceClient

from stitch.config.environment import parse_env
from stitch.testing.azurite import ACCOUNT, Azurite
from tests.cli.federation import Federation, Said, Site, snapshot, unchanged

FIVE = '["rush", "nu", "uc", "mayo", "emory", "duke"]'


@pytest.fixture
def lead(federation: Federation, azurite: Azurite) -> Site:
    """The lead's project, with a run of its own in the account, whose key is in the environment."""
    site = federation.lead
    site.toml('run_id = "icu"', f'run_id = "icu-{secrets.token_hex(4)}"')
    (site.root / ".env").unlink()
    site.environ = {"AZURE_STORAGE_CONNECTION_STRING": azurite.connection_string}
    return site


def run_of(site: Site) -> str:
    return (site.root / "stitch.toml").read_text(encoding="utf-8").splitlines()[0].split('"')[1]


def containers(azurite: Azurite, site: Site) -> list[str]:
    with BlobServiceClient.from_connection_string(
        azurite.connection_string, api_version="2026-06-06"
    ) as service:
        return sorted(str(one.name) for one in service.list_containers(name_starts_with=run_of(site)))


def well(said: Said) -> str:
    assert (said.code, said.err) == (0, ""), said
    assert "sig=" not in said.out
    assert said.out.isascii()
    return said.out


def refused(lead: Site, azurite: Azurite, *words: str, code: int) -> Said:
    """The command ends with this code and two lines, and nothing was made, here or there."""
    before = containers(azurite, lead)
    with unchanged(lead.root, but=("runs/last_error.txt",)):
        said = lead.call("provision", *words)
    assert said.code == code, said
    assert said.cause
    assert said.todo
    assert not (lead.root / "kits").exists()
    assert containers(azurite, lead) == before
    return said


def test_it_makes_a_container_a_lane_and_two_files_a_site(lead: Site, azurite: Azurite) -> None:
    run = run_of(lead)
    out = well(lead.call("provision"))
    assert containers(azurite, lead) == [f"{run}-global", f"{run}-nu", f"{run}-rush"]
    assert f"made  {run}-nu  (sites/nu)" in out
    assert "Yours: `clif-stitch setup kits/rush.env`" in out
    assert max(len(line) for line in out.splitlines() if "http" not in line) <= 80
    kits = lead.root / "kits"
    assert sorted(path.name for path in kits.iterdir()) == [
        *(".gitignore", "nu.env", "nu.md", "rush.env", "rush.md"),
    ]
    values = parse_env((kits / "nu.env").read_text(encoding="utf-8"), file="nu.env")
    assert list(values) == [
        *("STITCH_SITE", "STITCH_STORE_GLOBAL", "STITCH_STORE_SITE", "STITCH_STORE_HEARTBEAT"),
    ]
    text = (kits / "nu.md").read_text(encoding="utf-8")
    assert "sig=" not in text
    assert "uv run clif-stitch setup ../nu.env" in text
    assert "clif-stitch setup kits/rush.env" in (kits / "rush.md").read_text(encoding="utf-8")


@pytest.mark.skipif(os.name == "nt", reason="Windows keeps access lists instead of modes")
def test_kits_are_for_their_owner_s_eyes_alone(lead: Site) -> None:
    well(lead.call("provision"))
    for path in (lead.root / "kits").iterdir():
        assert path.stat().st_mode & 0o077 == 0, path
    assert (lead.root / "kits").stat().st_mode & 0o077 == 0


def test_git_does_not_see_kits(lead: Site) -> None:
    well(lead.call("provision"))
    subprocess.run(["git", "init", "-q"], cwd=lead.root, check=True)
    seen = subprocess.run(
        ["git", "status", "--short", "--untracked-files=all"],
        cwd=lead.root, capture_output=True, encoding="utf-8", check=True,
    ).stdout  # fmt: skip
    assert "stitch.toml" in seen
    assert "kits" not in seen


def test_again_renews_every_kit_and_keeps_the_containers(lead: Site, azurite: Azurite) -> None:
    well(lead.call("provision", "--days", "30"))
    before = snapshot(lead.root / "kits")
    out = well(lead.call("provision", "--days", "60"))
    assert out.count("  kept  ") == 3
    after = snapshot(lead.root / "kits")
    assert {name for name in before if before[name] != after[name]} == {
        *("nu.env", "nu.md", "rush.env", "rush.md"),
    }


def test_kits_for_some_sites_leave_the_others_alone(lead: Site) -> None:
    lead.toml('["rush", "nu"]', '["rush", "nu", "uc"]')
    well(lead.call("provision"))
    before = snapshot(lead.root / "kits")
    well(lead.call("provision", "--sites", "NU", "--days", "60"))
    after = snapshot(lead.root / "kits")
    assert [name for name in before if name.startswith("uc") and before[name] != after[name]] == []
    assert before["nu.env"] != after["nu.env"]
    assert before["rush.env"] != after["rush.env"]  # the lead's, which names every lane


def test_setup_and_doctor_take_a_kit(lead: Site, federation: Federation) -> None:
    well(lead.call("provision"))
    nu = federation.nu
    nu.toml('run_id = "icu"', f'run_id = "{run_of(lead)}"')
    (nu.root / ".env").unlink()
    kit = lead.root / "kits" / "nu.env"
    said = Said(*_typed(nu, "setup", str(kit), answers="\n\n"))
    assert said.code == 0, said
    assert "sig=" not in said.out + said.err
    for line in ("store global", "store sites/nu", "token heartbeat"):
        assert line in said.out
    assert "Delete nu.env now" in said.out


def _typed(site: Site, *words: str, answers: str) -> tuple[int, str, str]:
    done = subprocess.run(
        site.command(*words), cwd=site.root, env=site._environ(), input=answers,
        capture_output=True, encoding="utf-8", timeout=60, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


def test_revoking_says_what_ended_and_what_is_left_to_do(lead: Site, azurite: Azurite) -> None:
    well(lead.call("provision"))
    out = well(lead.call("provision", "--revoke", "nu"))
    assert "nu: 3 access policies withdrawn." in out
    assert "`clif-stitch provision --sites nu`" in out
    assert [path.name for path in (lead.root / "kits").iterdir() if "nu" in path.name] == []
    assert "nu: 0 access policies withdrawn." in well(lead.call("provision", "--revoke", "nu"))
    assert len(containers(azurite, lead)) == 3  # what it published stays
    assert "none for nu: revoked" in well(lead.call("provision"))
    assert not (lead.root / "kits" / "nu.env").exists()
    well(lead.call("provision", "--sites", "nu"))
    assert (lead.root / "kits" / "nu.env").exists()


def test_revoking_one_of_many_makes_new_kits_for_those_it_shared_a_policy_with(lead: Site) -> None:
    lead.toml('["rush", "nu"]', FIVE)
    well(lead.call("provision", "--days", "30"))
    before = snapshot(lead.root / "kits")
    out = well(lead.call("provision", "--revoke", "emory"))
    assert "Cut off with it, and given new kits: duke" in out
    after = snapshot(lead.root / "kits")
    changed = {name for name in after if before[name] != after[name]}
    assert {"duke.env", "rush.env"} <= changed
    assert not any(name.startswith(("nu", "uc", "mayo")) for name in changed)


def test_the_account_of_the_run_s_own_store_is_taken_when_none_is_said(
    lead: Site, federation: Federation, azurite: Azurite
) -> None:
    lead.environ = {"AZURE_STORAGE_KEY": azurite.account_key}
    assert "which storage account?" in refused(lead, azurite, code=2).cause
    well(lead.call("provision", "--account", azurite.endpoint))
    (lead.root / "kits" / "rush.env").rename(lead.root / ".env")
    assert f"in {azurite.endpoint}" in well(lead.call("provision"))


@pytest.mark.parametrize(
    ("words", "cause", "todo"),
    [
        (("--sites", "nuu"), "--sites: 'nuu' is not one of the sites", "Did you mean nu?"),
        (("--sites", "mayo"), "--sites: 'mayo' is not one of the sites", "Add it to sites in stitch.toml"),
        (("--sites", "N U"), "cannot be a site id", "A site id is"),
        (("--days", "0"), "--days 0: wanted 1 to 366", "--days 90"),
        (("--days", "367"), "--days 367", "--days 90"),
        (("--revoke", "mayo"), "--revoke: 'mayo' is not one of the sites", "Add it"),
        (("--revoke", "nu", "--sites", "nu"), "--revoke and --sites exclude one another", "Revoke first"),
        (("--account", "My_Account"), "'My_Account' is no storage account", "3 to 24 of a-z"),
        (("--account", "https://a.blob.core.windows.net/c?sv=1&sig=x"), "holds a token", "name alone"),
    ],
)
def test_a_mistake_on_the_command_line_makes_nothing(
    lead: Site, azurite: Azurite, words: tuple[str, ...], cause: str, todo: str
) -> None:
    said = refused(lead, azurite, *words, code=2)
    assert cause in said.cause
    assert todo in said.todo


def test_without_a_credential_it_says_which_one(lead: Site, azurite: Azurite) -> None:
    lead.environ = {"AZURE_STORAGE_ACCOUNT": "nobodysaccount"}
    without = "import runpy, sys; sys.modules['azure.identity'] = None; sys.argv[:] = sys.argv[3:]"
    lead.wrap = (sys.executable, "-c", f"{without}; runpy.run_module('stitch.cli', run_name='__main__')")
    said = refused(lead, azurite, code=2)
    assert said.cause == "there is no credential for the storage account"
    assert "AZURE_STORAGE_KEY" in said.todo
    assert "clif-stitch[entra]" in said.todo


@pytest.mark.parametrize(
    ("key", "code", "cause"),
    [("not a key", 2, "the Azure account key is not base64"), ("d3Jvbmc=", 22, "refused the credential")],
)
def test_a_wrong_key_makes_nothing(lead: Site, azurite: Azurite, key: str, code: int, cause: str) -> None:
    lead.environ = {"AZURE_STORAGE_KEY": key, "AZURE_STORAGE_ACCOUNT": azurite.endpoint}
    said = refused(lead, azurite, code=code)
    assert cause in said.cause
    assert "AZURE_STORAGE_KEY" in said.todo
    assert key not in said.out + said.err


def test_an_account_that_does_not_answer_makes_nothing(lead: Site, azurite: Azurite) -> None:
    nobody = f"http://127.0.0.1:9/{ACCOUNT}"
    lead.environ = {"AZURE_STORAGE_KEY": azurite.account_key}
    assert "refuses connections" in refused(lead, azurite, "--account", nobody, code=21).cause


def test_a_container_of_another_run_is_left_alone(lead: Site, azurite: Azurite) -> None:
    azurite.new_container(f"{run_of(lead)}-nu")
    said = refused(lead, azurite, code=20)
    assert "is there already and was not made by `provision`" in said.cause
    assert "Use another account or run_id" in said.todo


def test_a_disk_that_refuses_the_kits_is_finished_by_the_same_command(lead: Site, azurite: Azurite) -> None:
    lead.write("kits", "a file is in the way")
    said = lead.call("provision")
    assert said.code == 26, said
    assert "kits" in said.cause
    (lead.root / "kits").unlink()
    well(lead.call("provision"))
    assert (lead.root / "kits" / "nu.env").exists()


def test_outside_a_project(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    said = Site(tmp_path / "empty").call("provision")
    assert (said.code, said.cause) == (2, "there is no stitch.toml here")
