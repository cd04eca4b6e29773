"""A run of several sites in a storage account, and what is there of it."""

from __future__ import annotations

from collections.abc import Mapping

from azure.storage.blob import BlobServiceClient

from stitch.store import Store, StoreOptions, open_store
from stitch.store.azure_grants import Granted
from stitch.store.azure_provision import Plan, make_plan

SITES = ("rush", "nu", "uc")
SIX = (*SITES, "mayo", "emory", "duke")
BEAT = "sites/nu/events/heartbeat.json"


def plan_of(run_id: str, sites: tuple[str, ...] = SITES, kits: tuple[str, ...] = ()) -> Plan:
    return make_plan(run_id, "rush", sites=sites, kits=kits or sites)


def opened(url: str) -> Store:
    return open_store(url, options=StoreOptions())


def site_store(granted: Granted, site: str = "nu", variable: str = "STITCH_STORE_SITE") -> Store:
    return opened(granted.kits[site][variable])


def policies(service: BlobServiceClient, name: str) -> dict[str, str]:
    kept = service.get_container_client(name).get_container_access_policy()["signed_identifiers"]
    return {one.id: one.access_policy.permission for one in kept or ()}


def state(service: BlobServiceClient, run_id: str) -> Mapping[str, object]:
    """Everything that is there of a run: containers, marks, policies."""
    return {
        one.name: (one.metadata, policies(service, one.name))
        for one in service.list_containers(name_starts_with=run_id, include_metadata=True)
    }
