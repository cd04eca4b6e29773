"""A store URL taken apart, and what it does not say."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PureWindowsPath
from typing import Literal
from urllib.parse import parse_qsl, unquote, urlsplit

from stitch.clock import Clock, SystemClock
from stitch.errors import ConfigError


@dataclass(frozen=True, slots=True)
class StoreOptions:
    """What a URL does not say.

    Attributes:
        environment: where credentials and proxies are looked up: the process environment joined
            with `.env`. Read by name only: AZURE_STORAGE_KEY, AZURE_STORAGE_SAS_TOKEN,
            AZURE_STORAGE_CONNECTION_STRING, HTTPS_PROXY, HTTP_PROXY, NO_PROXY.
        clock: this machine's clocks.
        synced: the folder is one that Box Drive, OneDrive or the like copies between machines.
        ca_bundle: PEM file to trust instead of the operating system's certificate store.
        connections: transfers of blocks at a time, at most.
    """

    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    clock: Clock = field(default_factory=SystemClock)
    synced: bool = False
    ca_bundle: Path | None = None
    connections: int = 4


@dataclass(frozen=True, slots=True)
class Location:
    """A store URL taken apart.

    Attributes:
        kind: the backend.
        folder: the root folder of a `folder`.
        endpoint: `https://account.blob.core.windows.net` or an emulator's `http://host:port/account`.
        container: the Azure container.
        prefix: what keys are put under in the container, without slashes at its ends.
        token: a SAS token that came with the URL, without the `?`.
    """

    kind: Literal["memory", "folder", "azure"]
    folder: Path | None = None
    endpoint: str = ""
    container: str = ""
    prefix: str = ""
    token: str = field(default="", repr=False)

    def __str__(self) -> str:
        """The place for people, without the token."""
        if self.kind == "azure":
            return "/".join(part for part in (self.endpoint, self.container, self.prefix) if part)
        return str(self.folder) if self.folder else "memory:"


def parse_location(url: str, *, windows: bool | None = None) -> Location:
    r"""Takes a store URL apart.

    Understands `memory:`, `file:///path`, a plain path, `C:\folder`, `\\server\share`,
    `az://account/container[/prefix]`, a pasted container SAS URL, and an emulator's
    `http://127.0.0.1:10000/devstoreaccount1/container?…`.

    Args:
        url: as in `.env` or `stitch.toml`.
        windows: how `file:` URLs become paths; default: this machine.

    Raises:
        ConfigError: it is none of these.
    """
    text = url.strip().strip("\"'")
    if text == "memory:":
        return Location("memory")
    if _is_drive_or_share(text):
        return Location("folder", folder=Path(text))
    scheme = text.partition(":")[0].lower() if re.match(r"[A-Za-z][A-Za-z0-9+.-]+:", text) else ""
    if scheme == "file":
        return Location("folder", folder=_file_url_path(text, windows=windows))
    if scheme == "az":
        return _short_azure(text)
    if scheme in ("http", "https"):
        return _full_azure(text)
    if scheme or not text:
        raise ConfigError(
            f"no store understands the URL scheme {scheme + ':' if scheme else '(empty)'}",
            hint="Use a folder path, file:///path, az://account/container, or paste the container SAS URL.",
        )
    return Location("folder", folder=Path(text).expanduser())


def connection_fields(environment: Mapping[str, str]) -> dict[str, str]:
    """The fields of AZURE_STORAGE_CONNECTION_STRING, its key included; empty where there is none."""
    text = environment.get("AZURE_STORAGE_CONNECTION_STRING", "")
    pairs = (part.partition("=") for part in text.split(";") if "=" in part)
    return {name.strip(): value.strip() for name, _, value in pairs}


def _is_drive_or_share(text: str) -> bool:
    return bool(re.match(r"[A-Za-z]:[\\/]", text)) or text.startswith("\\\\")


def _file_url_path(text: str, *, windows: bool | None) -> Path:
    parts = urlsplit(text)
    path = unquote(parts.path)
    if windows is None:
        windows = isinstance(Path(), PureWindowsPath)
    if parts.netloc and parts.netloc.lower() != "localhost":
        if not windows:
            raise ConfigError(
                f"{text} names a folder on another machine",
                hint="Mount the share and give its path: file:///mnt/share (three slashes).",
            )
        return Path(f"\\\\{parts.netloc}" + path.replace("/", "\\"))
    if re.match(r"/[A-Za-z]:", path):
        path = path[1:]
    return Path(path)


def _short_azure(text: str) -> Location:
    parts = urlsplit(text)
    account = parts.netloc.lower()
    container, _, prefix = parts.path.strip("/").partition("/")
    if not re.fullmatch(r"[a-z0-9]{3,24}", account) or not container:
        raise ConfigError(
            "an az:// store URL is az://account/container[/prefix]",
            hint="The account is the first part of account.blob.core.windows.net.",
        )
    return _checked(
        Location(
            "azure",
            endpoint=f"https://{account}.blob.core.windows.net",
            container=container,
            prefix=prefix.strip("/"),
            token=parts.query,
        )
    )


def _full_azure(text: str) -> Location:
    parts = urlsplit(text)
    pieces = [unquote(piece) for piece in parts.path.split("/") if piece]
    account = [pieces.pop(0)] if pieces and _is_emulator(parts.hostname or "", pieces[0]) else []
    if not pieces:
        raise ConfigError(
            f"the store URL for {parts.hostname} names no container",
            hint="Paste the whole container SAS URL: https://account.blob.core.windows.net/container?sv=...",
        )
    endpoint = "/".join([f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}", *account])
    token = parts.query.replace("&amp;", "&")
    if "sig" in dict(parse_qsl(token)) or not token:
        return _checked(
            Location(
                "azure", endpoint=endpoint, container=pieces[0], prefix="/".join(pieces[1:]), token=token
            )
        )
    raise ConfigError(
        f"the SAS token after {parts.hostname}/{pieces[0]} has no signature (sig=)",
        hint="The URL was cut off: copy it again, whole, and put it in quotes.",
    )


def _is_emulator(host: str, first: str) -> bool:
    """An emulator is reached by address and has the account in its path."""
    return first == "devstoreaccount1" or host == "localhost" or bool(re.fullmatch(r"[\d.]+", host))


def _checked(location: Location) -> Location:
    if not re.fullmatch(r"[a-z0-9](?:-?[a-z0-9]){2,62}", location.container):
        raise ConfigError(
            f"{location.container!r} is not an Azure container name",
            hint="Container names have 3 to 63 lower-case letters, digits and single dashes.",
        )
    return location
