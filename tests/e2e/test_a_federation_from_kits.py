"""Three sites that have nothing but the kits their lead provisioned: `setup KIT`, then `run`."""

from __future__ import annotations

import json
import secrets
import shutil
import subprocess
from contextlib import ExitStack
from pathlib import Path

import pytest
from azure.storage.blob import BlobServiceClient

from stitch.config.environment import parse_env
from stitch.errors import StoreDenied
from stitch.store import StoreOptions, open_store
from stitch.testing.azurite import Azurite
from tests.cli.federation import HOOKS, TOML, Site

SITES = ("rush", "nu", "uc")


def project(folder: Path, run_id: str) -> Site:
    """What a site clones: settings and hooks, and its own data."""
    site = Site(folder)
    text = TOML.replace('run_id = "icu"', f'run_id = "{run_id}"').replace('["rush", "nu"]', json.dumps(SITES))
    site.write("stitch.toml", text.replace("num_passes = 1", "num_passes = 2"))
    site.write("code/hooks.py", HOOKS)
    (folder / "data").mkdir()
    return site


def set_up(site: Site, kit: Path) -> None:
    """As a person does: the site's name is in the kit, the data folder is asked for."""
    done = subprocess.run(
        site.command("setup", str(kit)), cwd=site.root, env=site._environ(), input="\ndata\n",
        capture_output=True, encoding="utf-8", timeout=90, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture
def run_id() -> str:
    return f"kits-{secrets.token_hex(4)}"


@pytest.fixture
def sites(azurite: Azurite, tmp_path: Path, run_id: str) -> dict[str, Site]:
    """The lead provisions with the account's key, then nobody has it any more."""
    made = {name: project(tmp_path / name, run_id) for name in SITES}
    lead = made["rush"]
    lead.environ = {"AZURE_STORAGE_CONNECTION_STRING": azurite.connection_string}
    said = lead.call("provision", "--days", "30")
    assert said.code == 0, said
    lead.environ = {}
    for name, site in made.items():
        kit = tmp_path / f"{name}.env"
        shutil.move(lead.root / "kits" / f"{name}.env", kit)
        set_up(site, kit)
        kit.unlink()
    shutil.rmtree(lead.root / "kits")
    return made


def test_a_whole_federation_runs_with_nothing_but_the_kits(
    sites: dict[str, Site], azurite: Azurite, run_id: str
) -> None:
    with ExitStack() as stack:
        running = [stack.enter_context(site.running("run")) for site in sites.values()]
        ends = [one.said(120) for one in running]
    assert [(end.code, end.err) for end in ends] == [(0, "")] * 3, ends
    assert not any("sig=" in end.out + end.err for end in ends)
    for site in sites.values():  # everyone added one, twice
        final = site.root / "stitch_store" / run_id / "global" / "pass_002" / "model.json"
        assert json.loads(final.read_text(encoding="utf-8")) == 3
    with BlobServiceClient.from_connection_string(
        azurite.connection_string, api_version="2026-06-06"
    ) as service:
        for lane in ("global", "sites/rush", "sites/nu", "sites/uc"):
            container = service.get_container_client(f"{run_id}-{lane.rpartition('/')[2]}")
            names = [str(name) for name in container.list_blob_names()]
            assert names
            assert [name for name in names if not name.startswith(f"{run_id}/{lane}/")] == []


def test_a_revoked_site_is_stopped_in_its_next_step_and_a_new_kit_lets_it_go_on(
    sites: dict[str, Site], azurite: Azurite, tmp_path: Path
) -> None:
    lead, nu = sites["rush"], sites["nu"]
    assert lead.call("step").code == 0
    assert nu.call("step").code == 0
    lead.environ = {"AZURE_STORAGE_CONNECTION_STRING": azurite.connection_string}
    assert lead.call("provision", "--revoke", "nu").code == 0
    said = nu.call("step")
    assert said.code == 22, said
    assert "ended or was withdrawn" in said.cause
    assert "Ask the lead for a new store URL" in said.todo
    assert sites["uc"].call("step").code == 0
    assert lead.call("provision", "--sites", "nu").code == 0
    set_up(nu, lead.root / "kits" / "nu.env")
    assert nu.call("step").code == 0


def test_a_site_s_own_sealed_pass_cannot_be_altered_with_its_kit(
    sites: dict[str, Site], run_id: str, tmp_path: Path
) -> None:
    assert sites["rush"].call("step").code == 0
    assert sites["nu"].call("step").code == 0
    kit = parse_env((sites["nu"].root / ".env").read_text(encoding="utf-8"), file=".env")
    (tmp_path / "forged").write_bytes(b"{}")
    store = open_store(kit["STITCH_STORE_SITE"], options=StoreOptions())
    sealed = list(store.list(f"{run_id}/sites/nu/pass_001/"))
    assert len(sealed) == 2
    for entry in sealed:
        with pytest.raises(StoreDenied):
            store.push(tmp_path / "forged", entry.key, mode="replace")
    assert list(store.list(f"{run_id}/sites/nu/pass_001/")) == sealed
