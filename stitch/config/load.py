"""Reading a project's settings: the only place that opens `stitch.toml` and `config/config.json`."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from stitch.config import names
from stitch.config.compression import read_compression
from stitch.config.environment import reload_environ, store_urls
from stitch.config.evaluation import evaluation_of
from stitch.config.explain import explain, nearest
from stitch.config.hooks import read_hooks
from stitch.config.pins import read_pins
from stitch.config.policy import policy_of
from stitch.config.privacy import private_hooks, read_privacy
from stitch.config.schema import StitchFile
from stitch.config.secrets import refuse_tokens
from stitch.config.settings import Egress, Integrity, Security, Settings, StoreSettings, Transfer
from stitch.config.site_file import SiteFile, find_site_file, needed, read_site_file
from stitch.config.text import read_text
from stitch.errors import ConfigError

FILE = "stitch.toml"
_EARLIER_RUN = re.compile(r"run:([^/]+)/pass_\d{3,}\Z")


def load_settings(root: Path, environ: Mapping[str, str], *, site: str | None = None) -> Settings:
    """Read `stitch.toml`, the site's file and the environment of the project at `root`.

    Args:
        root: the project folder.
        environ: the process environment; it wins over `.env`.
        site: who runs here, when the command line says so; the site's file may then be absent.

    Raises:
        ConfigError: a file is missing or malformed, a key unknown or of the wrong type, a token
            stands where it may not, a name is illegal, the site is not in the roster, or a store
            URL cannot be used. Whether the URLs that are needed are there: `require_urls`.
    """
    root = root.absolute()
    toml = parse_stitch_file(_stitch_toml(root))
    sites = names.roster(toml.sites, where=f"{FILE}: sites")
    lead = _member(names.site_id(toml.lead, where=f"{FILE}: lead"), sites, where=f"{FILE}: lead")
    file = _site_file(root, site)
    where = "--site" if site is not None else f"{file.name}: site_name"
    me = names.site_id(site if site is not None else needed(file, "site_name"), where=where)
    me = _member(me, sites, where=where)
    merged = reload_environ(root, environ)
    hooks = private_hooks(read_hooks(toml, file=FILE), toml.privacy)
    return Settings(
        root=root,
        run_id=names.run_id(toml.run_id, where=f"{FILE}: run_id"),
        lead=lead,
        sites=sites,
        site=me,
        num_passes=toml.num_passes,
        data_dir=_data_dir(root, file),
        output_dir=_path(root, file.known.get("output_directory") or "output"),
        policy=policy_of(toml.policy, sites=len(sites), file=FILE),
        transfer=Transfer(**toml.transfer.model_dump(exclude_unset=True)),
        hooks=hooks,
        evaluation=evaluation_of(toml, hooks, file=FILE),
        egress=_egress(toml, file),
        integrity=Integrity(**toml.integrity.model_dump(exclude_unset=True)),
        security=Security(**toml.security.model_dump(exclude_unset=True)),
        compression=read_compression(toml, where=FILE),
        privacy=read_privacy(toml, file, root=root, where=FILE),
        pins=read_pins(toml.pins, where=f"{FILE}: [pins]"),
        store=_store(root, toml),
        urls=store_urls(merged, root=root, site=me, sites=sites),
        hyper=toml.config,
        train_config=toml.train.config,
        strategy_options=toml.strategy,
        site_config=file.raw,
        environ=merged,
        **_plain(toml),
    )


def _stitch_toml(root: Path) -> str:
    if not (root / FILE).is_file():
        raise ConfigError(
            f"there is no {FILE} in {root}",
            hint="Run this in the project folder, or make one: `clif-stitch init`.",
        )
    return read_text(root / FILE)


_TWICE = "A key or table stands there for the second time: keep one of the two."
_WRITTEN = "Texts in double quotes; a Windows path in 'single quotes' or with / for \\."


def parse_stitch_file(text: str) -> StitchFile:
    """Check the text of a `stitch.toml` against the schema.

    Raises:
        ConfigError: not TOML, a token inside, an unknown key, or a wrong type.
    """
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        refuse_tokens(text, None, file=FILE)
        raise ConfigError(
            f"{FILE}: not valid TOML: {error}",
            hint=_TWICE if re.search("overwrite|twice|Duplicate", str(error)) else _WRITTEN,
        ) from None
    refuse_tokens(text, data, file=FILE)
    try:
        return StitchFile.model_validate(data)
    except ValidationError as error:
        raise explain(error, StitchFile, file=FILE) from None


def _plain(toml: StitchFile) -> dict[str, Any]:
    """The keys that go from file to settings as they are."""
    wanted = {"poll_seconds", "heartbeat_minutes", "give_up_after", "root_seed", "initial_model"}
    given = toml.model_dump(include=wanted, exclude_unset=True)
    model = given.get("initial_model")
    if isinstance(model, str) and model.startswith("run:"):
        match = _EARLIER_RUN.match(model)
        if match is None:
            raise ConfigError(
                f"{FILE}: initial_model {model!r} names no pass", hint='Write a path, or "run:ID/pass_008".'
            )
        names.run_id(match[1], where=f"{FILE}: initial_model")
    return given


def _egress(toml: StitchFile, file: SiteFile) -> Egress:
    """What may leave; of the two outboxes the stricter one: a site can add a review, and not waive one."""
    given = toml.egress.model_dump(exclude_unset=True)
    own = file.known.get("outbox", "direct")
    if own not in ("direct", "review"):
        raise ConfigError(
            f'{file.name}: \'outbox\' is {own[:40]!r}, wanted "review" or "direct"',
            hint='Write "outbox": "review" to look at every pass before it leaves.',
        )
    if own == "review":
        given["outbox"] = own
    if "metrics" in given:
        given["metrics"] = tuple(given["metrics"])
    return Egress(**given)


def _store(root: Path, toml: StitchFile) -> StoreSettings:
    given = toml.store.model_dump(exclude_unset=True)
    if "ca_bundle" in given:
        given["ca_bundle"] = _path(root, given["ca_bundle"])
    return StoreSettings(**given)


def _member(name: str, sites: tuple[str, ...], *, where: str) -> str:
    if name in sites:
        return name
    close = nearest(name, sites)
    meant = f' Did you mean "{close}"?' if close else ""
    raise ConfigError(
        f"{where}: {name!r} is not one of the sites of {FILE} ({', '.join(sites[:12])})",
        hint=f"Use one of these names, or ask the lead to add yours.{meant}",
    )


def _site_file(root: Path, site: str | None) -> SiteFile:
    path = find_site_file(root)
    if path is not None:
        return read_site_file(path, root=root)
    if site is None:
        raise ConfigError(
            "config/config.json is missing: which site is this?",
            hint="Run `clif-stitch setup`; it asks and writes it.",
        )
    return SiteFile("config/config.json", {}, {})


def _data_dir(root: Path, file: SiteFile) -> Path:
    return _path(root, needed(file, "data_directory") if file.raw else "data")


def _path(root: Path, text: str) -> Path:
    return root / Path(text).expanduser()
