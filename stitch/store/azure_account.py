"""A storage account as its owner sees it: makes containers, keeps their policies, signs tokens."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from azure.core.exceptions import AzureError
from azure.storage.blob import (
    AccessPolicy,
    BlobSasPermissions,
    BlobServiceClient,
    ContainerSasPermissions,
    UserDelegationKey,
    generate_blob_sas,
    generate_container_sas,
)
from requests.exceptions import RequestException

from stitch.errors import AlreadyExists, ConfigError, StoreDenied, StoreError, StoreMissing, StoreUnavailable
from stitch.store.azure_client import (
    API_VERSION,
    Wires,
    account_of,
    issuer_seen,
    sign_in,
    wire,
)
from stitch.store.azure_errors import Scene, response_date, translate
from stitch.store.azure_provision import Token
from stitch.store.location import connection_fields


@dataclass(frozen=True, slots=True)
class Found:
    """A container that is there.

    Attributes:
        marks: its metadata.
        changed: when metadata or policies last changed, in whole seconds. Blobs do not count.
        policies: its stored access policies by id, as Azure gives them.
        permissions: their letters, by id.
    """

    marks: Mapping[str, str]
    changed: datetime
    policies: Mapping[str, Any] = field(repr=False)
    permissions: Mapping[str, str]


def open_account(endpoint: str, environment: Mapping[str, str], *, ca_bundle: Path | None) -> Account:
    """Opens an account with its key, or as whoever is signed in; nothing is asked of it yet.

    A token (AZURE_STORAGE_SAS_TOKEN) is passed over: it can sign no other.

    Args:
        endpoint: the account's URL.
        environment: AZURE_STORAGE_KEY, AZURE_STORAGE_CONNECTION_STRING, and proxies.
        ca_bundle: PEM file to trust instead of the operating system's store.

    Raises:
        ConfigError: no credential, or a key that is none.
    """
    account = account_of(endpoint)
    named = connection_fields(environment)
    key = environment.get("AZURE_STORAGE_KEY", "").strip()
    if not key and named.get("AccountName") == account:
        key = named.get("AccountKey", "")
    if key:
        _check_key(key)
    credential: Any = {"account_name": account, "account_key": key} if key else _signed_in()
    wires = wire(endpoint, environment, ca_bundle=ca_bundle, connections=1)
    return Account(endpoint, credential=credential, key=key, wires=wires)


class Account:
    """One storage account. Open it with `open_account`.

    Args:
        endpoint: its URL.
        credential: for the SDK.
        key: the account's key; "" for a sign-in.
        wires: proxy and trust.
    """

    def __init__(self, endpoint: str, *, credential: Any, key: str, wires: Wires) -> None:
        self.endpoint = endpoint
        self._key = key
        self._wires = wires
        self._heard: datetime | None = None
        self._delegation: UserDelegationKey | None = None
        self._client = BlobServiceClient(
            endpoint,
            credential=credential,
            api_version=API_VERSION,
            transport=wires.transport,
            proxies=wires.proxies,
            retry_total=0,  # a person is there, and the same command goes on
            raw_response_hook=lambda answer: self._hear(answer.http_response),
        )

    @property
    def keeps_policies(self) -> bool:
        """Whether tokens hang on stored policies: those that a sign-in signs cannot."""
        return bool(self._key)

    def now(self) -> datetime:
        """The account's clock, as its last answer gave it; else this machine's."""
        return self._heard or datetime.now(UTC)

    def look(self, name: str) -> Found | None:
        """A container's metadata and policies; None when there is no such container.

        Raises:
            StoreError: it could not be asked.
        """
        container = self._client.get_container_client(name)
        try:
            with self._telling(f"look at container {name}", name):
                properties = container.get_container_properties()
                kept = container.get_container_access_policy() if self.keeps_policies else {}
        except StoreMissing:
            return None
        policies = {str(one.id): one.access_policy for one in kept.get("signed_identifiers") or ()}
        letters = {one: str(getattr(policy, "permission", "") or "") for one, policy in policies.items()}
        return Found(dict(properties.metadata or {}), properties.last_modified, policies, letters)

    def make(self, name: str, marks: Mapping[str, str]) -> None:
        """Creates a private container that says whose it is, in one act.

        Raises:
            StoreError: it is there, is being deleted, or the account refused.
        """
        try:
            with self._telling(f"create container {name}", name):
                self._client.create_container(name, metadata=dict(marks))
        except StoreMissing:
            raise StoreUnavailable(
                f"the container {name} is still being deleted", hint="Wait a minute, then re-run."
            ) from None

    def keep(self, name: str, policies: Mapping[str, Any], *, unless_after: datetime | None = None) -> None:
        """Replaces a container's stored access policies, all in one act.

        Args:
            name: the container.
            policies: by id: permissions in letters, or a policy as `look` gave it.
            unless_after: only if nobody changed the container since, lest a withdrawn policy come back.

        Raises:
            StoreError: somebody did, or the account refused.
        """
        whole = {
            one: AccessPolicy(permission=policy) if isinstance(policy, str) else policy
            for one, policy in policies.items()
        }
        only: dict[str, Any] = {"if_unmodified_since": unless_after} if unless_after else {}
        try:
            with self._telling(f"set the access policies of container {name}", name):
                self._client.get_container_client(name).set_container_access_policy(whole, **only)
        except AlreadyExists:
            raise StoreError(
                f"somebody else changes the container {name} just now", hint="Run the same command again."
            ) from None

    def mark(self, name: str, marks: Mapping[str, str]) -> None:
        """Replaces a container's metadata.

        Raises:
            StoreError: the account refused.
        """
        with self._telling(f"mark container {name}", name):
            self._client.get_container_client(name).set_container_metadata(dict(marks))

    def sign(self, token: Token, policy: str, *, until: datetime) -> str:
        """The URL for one token, its signature included: never to be printed.

        Args:
            token: what it is for.
            policy: the id of the stored access policy it hangs on; "" signs the permissions themselves.
            until: when it ends.
        """
        by_blob = bool(token.blob)
        kind = BlobSasPermissions if by_blob else ContainerSasPermissions
        common: dict[str, Any] = {
            "account_key": self._key or None,
            "user_delegation_key": None if self._key else self._delegated(until),
            "expiry": until,
            "protocol": "https" if self.endpoint.startswith("https:") else None,
            **({"policy_id": policy} if policy else {"permission": kind.from_string(token.permissions)}),
        }
        account = account_of(self.endpoint)
        place = f"{self.endpoint}/{token.container}"
        if by_blob:
            signed = generate_blob_sas(account, token.container, token.blob, **common)
            return f"{place}/{quote(token.blob)}?{signed}"
        return f"{place}?{generate_container_sas(account, token.container, **common)}"

    def _delegated(self, until: datetime) -> UserDelegationKey:
        """The key that Azure lends to whoever is signed in, asked for once."""
        if self._delegation is None:
            with self._telling("get a user delegation key", ""):
                self._delegation = self._client.get_user_delegation_key(self.now(), until)
        return self._delegation

    def _hear(self, answer: Any) -> None:
        self._heard = response_date(answer) or self._heard

    @contextmanager
    def _telling(self, what: str, container: str) -> Iterator[None]:
        """Turns what the SDK raises inside into a `StoreError`."""
        try:
            yield
        except (AzureError, RequestException, OSError) as error:
            raise self._told(translate(error, self._scene(what, container))) from None

    def _told(self, error: StoreError) -> StoreError:
        """A refusal with the cure of whoever owns the account; the translation speaks to a site."""
        if isinstance(error, StoreDenied) and "sign-in to Azure failed" in str(error):
            return StoreDenied(str(error), hint="Run `az login`, or set AZURE_STORAGE_KEY for this command.")
        if isinstance(error, StoreDenied) and "refused the credential" in str(error):
            wanted = (
                "Is AZURE_STORAGE_KEY a key of this account, not switched off, and this machine let in "
                "(portal: Access keys, Networking)?"
                if self._key
                else "The sign-in needs the role Storage Blob Data Contributor on the whole account."
            )
            return StoreDenied(str(error), hint=wanted)
        return error

    def _scene(self, what: str, container: str) -> Scene:
        return Scene(
            what=what,
            need="create",
            place=self.endpoint,
            container=container,
            host=urlsplit(self.endpoint).hostname or "",
            proxy=self._wires.proxy,
            token="",
            api_version=API_VERSION,
            issuer=lambda: issuer_seen(self.endpoint, self._wires),
        )


def _check_key(key: str) -> None:
    try:
        base64.b64decode(key, validate=True)
    except (binascii.Error, ValueError):
        raise ConfigError(
            "the Azure account key is not base64", hint="Copy AZURE_STORAGE_KEY again."
        ) from None


def _signed_in() -> Any:
    try:
        return sign_in()
    except ConfigError:
        raise ConfigError(
            "there is no credential for the storage account",
            hint="Set AZURE_STORAGE_KEY for this command, or install clif-stitch[entra] and run `az login`.",
        ) from None
