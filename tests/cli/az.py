"""Stands for the Azure CLI: the commands that `provision --print` uses, on the account in the environment.

Options are those of Azure CLI 2; one that it does not know ends it, so that no misspelt one is passed over.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Callable
from datetime import datetime

from azure.storage.blob import AccessPolicy, BlobServiceClient, generate_blob_sas, generate_container_sas
from azure.storage.blob import ContainerClient as Container

SERVICE = BlobServiceClient.from_connection_string(os.environ["AZ_CONNECTION"], api_version="2026-06-06")
ACCOUNT, KEY = SERVICE.account_name or "", SERVICE.credential.account_key


def options(*names: str, flags: tuple[str, ...] = (), lists: tuple[str, ...] = ()) -> argparse.Namespace:
    """Exactly these options, all but the flags required."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    for name in names:
        parser.add_argument(f"--{name}", required=True, nargs="+" if name in lists else None)
    for name in flags:
        parser.add_argument(f"--{name}", action="store_true")
    return parser.parse_args(WORDS)


def policies(container: Container) -> dict[str, AccessPolicy]:
    """Stored access policies by id."""
    return {
        one.id: one.access_policy
        for one in container.get_container_access_policy()["signed_identifiers"] or ()
    }


def exists() -> str:
    """`container exists`."""
    asked = options("name", "query", "output")
    return str(SERVICE.get_container_client(asked.name).exists()).lower()


def create() -> str:
    """`container create`."""
    asked = options("name", "metadata", "output", lists=("metadata",))
    SERVICE.create_container(asked.name, metadata=dict(pair.split("=", 1) for pair in asked.metadata))
    return ""


def metadata_show() -> str:
    """`container metadata show`."""
    asked = options("name", "query", "output")
    metadata = SERVICE.get_container_client(asked.name).get_container_properties().metadata
    return str(metadata.get(asked.query, ""))


def policy_list() -> str:
    """`container policy list`, with the three queries that the script makes."""
    asked = options("container-name", "query", "output")
    held = sorted(policies(SERVICE.get_container_client(asked.container_name)))
    if asked.query == "length(keys(@))":
        return str(len(held))
    match = re.fullmatch(r"keys\(@\)\[\?starts_with\(@, '([\w-]+)'\)\]( \| \[0\])?", asked.query)
    assert match, asked.query
    found = [one for one in held if one.startswith(match[1])]
    return "\n".join(found[:1] if match[2] else found)


def policy_create() -> str:
    """`container policy create`, which replaces one of the same name."""
    asked = options("container-name", "name", "permissions", "output")
    container = SERVICE.get_container_client(asked.container_name)
    held = {**policies(container), asked.name: AccessPolicy(permission=asked.permissions)}
    container.set_container_access_policy(held)
    return ""


def policy_delete() -> str:
    """`container policy delete`."""
    asked = options("container-name", "name", "output")
    container = SERVICE.get_container_client(asked.container_name)
    held = policies(container)
    del held[asked.name]
    container.set_container_access_policy(held)
    return ""


def container_sas() -> str:
    """`container generate-sas`."""
    asked = options("name", "policy-name", "expiry", "output", flags=("https-only",))
    return generate_container_sas(
        ACCOUNT, asked.name, account_key=KEY, policy_id=asked.policy_name, expiry=when(asked.expiry)
    )


def blob_sas() -> str:
    """`blob generate-sas`."""
    asked = options("container-name", "name", "policy-name", "expiry", "output", flags=("https-only",))
    return generate_blob_sas(
        ACCOUNT, asked.container_name, asked.name,
        account_key=KEY, policy_id=asked.policy_name, expiry=when(asked.expiry),
    )  # fmt: skip


def when(text: str) -> datetime:
    """As Azure CLI takes times."""
    return datetime.strptime(text, "%Y-%m-%dT%H:%M:%S%z")


VERBS: dict[str, Callable[[], str]] = {
    "storage container exists": exists,
    "storage container create": create,
    "storage container metadata show": metadata_show,
    "storage container policy list": policy_list,
    "storage container policy create": policy_create,
    "storage container policy delete": policy_delete,
    "storage container generate-sas": container_sas,
    "storage blob generate-sas": blob_sas,
}
VERB = next(verb for verb in VERBS if " ".join(sys.argv[1:]).startswith(f"{verb} "))
WORDS = sys.argv[1 + len(VERB.split()) :]

if __name__ == "__main__":
    said = VERBS[VERB]()
    if said:
        print(said)
