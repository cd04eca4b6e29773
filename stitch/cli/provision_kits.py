"""What `provision` was asked, what it leaves in `kits/`, and what it says."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from stitch.config import names
from stitch.config.environment import STORE, STORE_GLOBAL, reload_environ
from stitch.config.explain import nearest
from stitch.config.load import FILE, parse_stitch_file
from stitch.config.secrets import holds_token
from stitch.config.text import read_text, write_text
from stitch.errors import ConfigError
from stitch.files import disk
from stitch.store.azure_provision import MOST_DAYS, MOST_DAYS_SIGNED_IN, Plan, make_plan
from stitch.store.location import connection_fields, parse_location

if TYPE_CHECKING:
    from stitch.store.azure_account import Account

KITS = "kits"
DAYS = 90

_NAME = re.compile(r"[a-z0-9]{3,24}\Z")
_URL = re.compile(r"https?://[\w.:-]+(?:/[a-z0-9]+)?\Z")


@dataclass(frozen=True, slots=True)
class Asked:
    """One call of `provision`, checked.

    Attributes:
        root: the project folder.
        plan: containers and kits.
        named: the sites that were asked for by name.
        endpoint: the storage account's URL.
        days: how long, when it was said.
        revoke: the site whose tokens end, or "".
        environ: the environment with `.env`. Never printed.
        ca_bundle: PEM file to trust, when `stitch.toml` names one.
    """

    root: Path
    plan: Plan
    named: tuple[str, ...]
    endpoint: str
    days: int | None
    revoke: str
    environ: Mapping[str, str] = field(repr=False)
    ca_bundle: Path | None

    @classmethod
    def read(cls, root: Path, *, sites: str, days: int | None, account: str, revoke: str) -> Asked:
        """Check everything that can be checked without asking Azure.

        Raises:
            ConfigError: no project here, a site that is none, a number out of range, no account.
        """
        if not (root / FILE).is_file():
            raise ConfigError(f"there is no {FILE} here", hint="Run `clif-stitch provision` in the project.")
        toml = parse_stitch_file(read_text(root / FILE))
        roster = names.roster(toml.sites, where=f"{FILE}: sites")
        lead = _members([toml.lead], roster, where=f"{FILE}: lead")[0]
        kits = _members([name for name in sites.split(",") if name.strip()], roster, where="--sites")
        gone = _members([revoke] if revoke else [], roster, where="--revoke")
        if gone and kits:
            raise ConfigError(
                "--revoke and --sites exclude one another", hint="Revoke first, then run it with --sites."
            )
        if days is not None and not 1 <= days <= MOST_DAYS:
            raise ConfigError(f"--days {days}: wanted 1 to {MOST_DAYS}", hint="Try --days 90, and renew.")
        run_id = names.run_id(toml.run_id, where=f"{FILE}: run_id")
        environ = reload_environ(root, os.environ)
        bundle = toml.store.model_dump(exclude_unset=True).get("ca_bundle")
        return cls(
            root=root,
            plan=make_plan(run_id, lead, sites=roster, kits=kits or roster),
            named=kits,
            endpoint=_endpoint(account, environ),
            days=days,
            revoke="".join(gone),
            environ=environ,
            ca_bundle=root / Path(bundle).expanduser() if bundle else None,
        )

    @property
    def account(self) -> str:
        """The account's name in its URL, an emulator's included."""
        parts = urlsplit(self.endpoint)
        return parts.path.strip("/") or (parts.hostname or "").partition(".")[0]


def renew(asked: Asked) -> str:
    """Make what is missing, sign the kits anew, write them, and say what was done."""
    account = _open(asked)
    days = asked.days or (DAYS if account.keeps_policies else MOST_DAYS_SIGNED_IN)
    if not account.keeps_policies and days > MOST_DAYS_SIGNED_IN:
        raise ConfigError(
            f"--days {days}: Azure signs tokens of an Entra login for {MOST_DAYS_SIGNED_IN} days at most",
            hint="Use --days 7 and renew weekly, or set AZURE_STORAGE_KEY for this command.",
        )
    return "\n".join(_grant(asked, account, asked.plan, days=days))


def revoke_site(asked: Asked) -> str:
    """End a site's tokens, give new kits to those who shared a policy with it, and say what was done."""
    from stitch.store.azure_grants import withdraw  # noqa: PLC0415  the SDK costs a second to import

    site, account = asked.revoke, _open(asked)
    ended = withdraw(account, asked.plan, site=site)
    for name in (f"{site}.env", f"{site}.md"):
        path = asked.root / KITS / name
        with disk(path):
            path.unlink(missing_ok=True)
    lines = [f"{site}: {_count(len(ended.policies), 'access policy', 'access policies')} withdrawn."]
    if ended.policies:
        lines.append("Its tokens are dead; on Azure it can take half a minute.")
    if site == asked.plan.lead:
        lines.append("`clif-stitch provision` makes the lead a new kit.")
    if ended.stranded:
        lines += ["", f"Cut off with it, and given new kits: {', '.join(ended.stranded)}"]
        lines += _grant(asked, account, asked.plan.for_kits(ended.stranded), days=asked.days or DAYS)
    if site != asked.plan.lead:
        lines += ["", f"What {site} has published stays. It gets no kit until you name it:"]
        lines += [f"`clif-stitch provision --sites {site}`."]
    return "\n".join(lines)


def kit_head(asked: Asked, site: str, *, until: datetime) -> str:
    """The head of a site's kit: whose it is and how long it opens anything."""
    return (
        f"# clif-stitch: the kit of {site} for the run {asked.plan.run_id}\n"
        f"# valid until {until:%Y-%m-%d %H:%M} UTC\n"
        "# Whoever has this file can use it: send it so that only the site can read it.\n"
        f"STITCH_SITE={site}\n"
    )


def instructions(asked: Asked, site: str, *, until: datetime) -> str:
    """What a site does with its kit; holds no secret."""
    lead = site == asked.plan.lead
    allowed = [
        "read and overwrite in the global container" if lead else "read and list in the global container",
        "create, read and list in its own container: what is there cannot be altered",
        "overwrite its own heartbeat, one file",
        *(["read and list in every site's container"] if lead else []),
    ]
    lines = [
        f"# Kit of {site} for {asked.plan.run_id}",
        "",
        f"`{site}.env` holds the store URLs of this site. Each ends in a token, which is",
        f"like a password; they are valid until {until:%Y-%m-%d %H:%M} UTC. They may:",
        "",
        *(f"- {one}" for one in allowed),
        "",
        "1. Get the project and follow its SITE_INSTRUCTIONS.md as far as `uv sync`.",
        f"2. {'I' if lead else f'Put `{site}.env` beside it, and i'}n the project folder:",
        "",
        f"       uv run clif-stitch setup {KITS if lead else '..'}/{site}.env",
        "",
        "   It writes the URLs into `.env`, which stays on this machine, and checks them.",
        f"3. Delete `{site}.env`, here and wherever it was sent.",
        "",
        "A newer kit: the same again; a `run` that is under way takes it up by itself.",
        "Lost, or seen by somebody else: tell the lead at once.",
    ]
    return "\n".join(lines) + "\n"


def _grant(asked: Asked, account: Account, plan: Plan, *, days: int) -> list[str]:
    """Grant a plan, write its kits, and tell of both."""
    from stitch.store.azure_grants import grant  # noqa: PLC0415  the SDK costs a second to import

    granted = grant(account, plan, days=days, named=asked.named)
    folder = asked.root / KITS
    with disk(folder):
        folder.mkdir(mode=0o700, exist_ok=True)
    write_text(folder / ".gitignore", "*\n")
    for site, urls in granted.kits.items():
        lines = "".join(f'{name}="{url}"\n' for name, url in urls.items())
        write_text(folder / f"{site}.env", kit_head(asked, site, until=granted.until) + lines)
        write_text(folder / f"{site}.md", instructions(asked, site, until=granted.until))
    said = [f"Run {plan.run_id} in {account.endpoint}"]
    said += [
        f"  {'made' if one.name in granted.made else 'kept'}  {one.name}  ({one.lane})"
        for one in plan.containers
    ]
    said.append(f"Kits in {KITS}/, valid until {granted.until:%Y-%m-%d %H:%M} UTC:")
    said += [f"  {site}.env, {site}.md{'  (yours)' if site == plan.lead else ''}" for site in granted.kits]
    said += [f"  none for {site}: revoked; name it in --sites to take it back" for site in granted.left_out]
    if not account.keeps_policies:
        said.append("An Entra login signed them: they end by themselves, --revoke cannot end them.")
    said.append(f"Yours: `clif-stitch setup {KITS}/{plan.lead}.env`. Send each site its two files so that")
    return [*said, f"only it can read them, then delete them from {KITS}/."]


def _open(asked: Asked) -> Account:
    from stitch.store.azure_account import open_account  # noqa: PLC0415  the SDK costs a second to import

    return open_account(asked.endpoint, asked.environ, ca_bundle=asked.ca_bundle)


def _members(asked: list[str], roster: tuple[str, ...], *, where: str) -> tuple[str, ...]:
    """Site ids that must be in the roster: a kit for a misspelt site would open a lane nobody reads."""
    chosen = names.roster(asked, where=where)
    for name in chosen:
        if name not in roster:
            close = nearest(name, roster)
            raise ConfigError(
                f"{where}: {name!r} is not one of the sites of {FILE} ({', '.join(roster[:12])})",
                hint=f"Did you mean {close}?" if close else f"Add it to sites in {FILE} first.",
            )
    return chosen


def _endpoint(account: str, environ: Mapping[str, str]) -> str:
    """The account's URL: as asked for, or as the environment names it, or that of the run's store."""
    if account:
        return _account_url(account, where="--account")
    parts = connection_fields(environ)
    if parts.get("BlobEndpoint") or parts.get("AccountName"):
        suffix = parts.get("EndpointSuffix", "core.windows.net")
        made = f"https://{parts.get('AccountName')}.blob.{suffix}"
        return _account_url(parts.get("BlobEndpoint") or made, where="AZURE_STORAGE_CONNECTION_STRING")
    if environ.get("AZURE_STORAGE_ACCOUNT"):
        return _account_url(environ["AZURE_STORAGE_ACCOUNT"], where="AZURE_STORAGE_ACCOUNT")
    for name in (STORE_GLOBAL, STORE):
        url = environ.get(name, "")
        place = parse_location(url) if url else None
        if place and place.kind == "azure":
            return place.endpoint
    raise ConfigError(
        "which storage account?", hint="Add --account NAME, the first part of NAME.blob.core.windows.net."
    )


def _account_url(text: str, *, where: str) -> str:
    if holds_token(text) or "?" in text:
        raise ConfigError(
            f"{where} holds a token, which cannot make others", hint="Give the account's name alone."
        )
    url = text.strip().rstrip("/")
    if _NAME.match(url):
        return f"https://{url}.blob.core.windows.net"
    if _URL.match(url):
        return url
    raise ConfigError(
        f"{where} {text!r} is no storage account",
        hint="Give its name (3 to 24 of a-z, 0-9) or its URL: https://NAME.blob.core.windows.net.",
    )


def _count(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"
