"""One container per lane with least-privilege tokens: the way a hospital's cloud team hands them out."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from azure.storage.blob import BlobSasPermissions, generate_blob_sas

from stitch import Client, run_lead, run_local
from stitch.errors import EgressRefused, StoreDenied
from stitch.testing.azurite import ACCOUNT, Azurite

TOML = """
run_id = "apart"
lead = "rush"
sites = ["rush", "nu"]
num_passes = 2
poll_seconds = 0.2
heartbeat_minutes = 0.05
root_seed = 1
[hooks]
model_ext = "txt"
"""


def train(*, global_path: Path | None, out_path: Path, data_dir: Path) -> dict[str, int]:
    """A model is one number; training adds one."""
    assert data_dir.is_dir()
    out_path.write_text(str(0 if global_path is None else float(global_path.read_text("utf-8")) + 1), "utf-8")
    return {"n_samples": 100}


def aggregate(*, site_dir: Path, out_path: Path) -> dict[str, int]:
    """The mean of the inputs."""
    values = [float(path.read_text("utf-8")) for path in sorted(site_dir.glob("*/pass_*/model.txt"))]
    out_path.write_text(str(sum(values) / len(values)), "utf-8")
    return {"inputs": len(values)}


def project(folder: Path, site: str, environ: Mapping[str, str]) -> Client:
    (folder / "config").mkdir(parents=True)
    (folder / "data").mkdir()
    (folder / "stitch.toml").write_text(TOML, encoding="utf-8")
    (folder / "config" / "config.json").write_text(
        json.dumps({"site_name": site, "data_directory": "data"}), encoding="utf-8"
    )
    text = "".join(f"{name}={value}\n" for name, value in environ.items())
    (folder / ".env").write_text(text, encoding="utf-8")
    return Client.open(folder, environ={})


def heartbeat_url(azurite: Azurite, container: str) -> str:
    """A token for writing one blob, as the URL of that blob."""
    blob = "apart/sites/nu/events/heartbeat.json"
    token = generate_blob_sas(
        ACCOUNT,
        container,
        blob,
        account_key=azurite.account_key,
        permission=BlobSasPermissions.from_string("cw"),
        expiry=datetime.now(UTC) + timedelta(hours=1),
    )
    return f"{azurite.endpoint}/{container}/{blob}?{token}"


@pytest.fixture
def clients(azurite: Azurite, tmp_path: Path) -> tuple[Client, Client]:
    """The lead, which reads every lane, and a site that may create in its own and read the global one."""
    shared, rush, nu = (azurite.new_container() for _ in range(3))
    lead = project(
        tmp_path / "rush",
        "rush",
        {
            "STITCH_STORE_GLOBAL": azurite.container_url(shared, "rcwl"),
            "STITCH_STORE_SITE": azurite.container_url(rush, "rcwl"),
            "STITCH_STORE_NU": azurite.container_url(nu, "rl"),
        },
    )
    site = project(
        tmp_path / "nu",
        "nu",
        {
            "STITCH_STORE_GLOBAL": azurite.container_url(shared, "rl"),
            "STITCH_STORE_SITE": azurite.container_url(nu, "rcl"),
            "STITCH_STORE_HEARTBEAT": heartbeat_url(azurite, nu),
        },
    )
    return lead, site


def test_a_federation_runs_where_no_site_may_overwrite_or_reach_another_lane(
    clients: tuple[Client, Client],
) -> None:
    lead, site = clients
    ends: list[object] = []
    thread = threading.Thread(target=lambda: ends.append(run_local(site, train)))
    thread.start()
    ends.append(run_lead(lead, train, aggregate))
    thread.join()
    assert [getattr(end, "final_pass", None) for end in ends] == [2, 2]
    assert float(site.global_model_path(2).read_text("utf-8")) == 2
    assert lead.lanes.stat("sites/nu/events/heartbeat.json") is not None


def test_a_site_s_token_can_neither_write_the_global_lane_nor_see_another_site(
    clients: tuple[Client, Client],
) -> None:
    _, site = clients
    with pytest.raises(EgressRefused):
        site.lanes.write("global/DONE.json", b"{}", mode="create")
    with pytest.raises(StoreDenied):
        replace(site.lanes, writable=None).write("global/DONE.json", b"{}", mode="create")
    with pytest.raises(StoreDenied, match="no store is configured"):
        site.lanes.stat("sites/rush/pass_001/metrics.json")


def test_a_sealed_pass_cannot_be_overwritten_with_the_site_s_token(clients: tuple[Client, Client]) -> None:
    lead, site = clients
    thread = threading.Thread(target=lambda: run_local(site, train))
    thread.start()
    run_lead(lead, train, aggregate)
    thread.join()
    with pytest.raises(StoreDenied):
        site.lanes.write("sites/nu/pass_001/metrics.json", b"{}", mode="replace")
