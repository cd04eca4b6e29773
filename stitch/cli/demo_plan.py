"""What a demo is to be: who, how many passes, where; remembered in its folder."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from stitch.cli.demo_policy import DemoPolicy
from stitch.config.load import parse_stitch_file
from stitch.config.text import read_text
from stitch.errors import BadDocument, ConfigError
from stitch.files import disk, write_file
from stitch.store import parse_location

SITES = ("rush", "nu", "uchicago", "umich", "emory", "ucsf", "jhu", "penn", "ohsu", "umn")
"""Sites of the CLIF consortium; the first one leads."""

MARK = "demo.json"
OWN_STORE = "store"
RUN_ID = "demo"


@dataclass(frozen=True, slots=True)
class Plan:
    """One demo.

    Attributes:
        folder: absolute; holds one project a site, and the store.
        sites: the lead first.
        passes: how many.
        store: the URL given on the command line; "" for the folder `store/` beside the projects.
        project: the project that is federated; None for the numpy template.
        policy: when a round closes; by default as the project says.
        privacy: with the template: clip and noise before anything leaves.
    """

    folder: Path
    sites: tuple[str, ...]
    passes: int
    store: str = field(repr=False)
    project: Path | None
    policy: DemoPolicy = DemoPolicy.ALL_EXPECTED
    privacy: bool = False

    @property
    def lead(self) -> str:
        """The site that also aggregates."""
        return self.sites[0]

    @property
    def built(self) -> bool:
        """Whether an earlier call built the whole folder."""
        return (self.folder / MARK).is_file()

    def home(self, site: str) -> Path:
        """A site's project folder."""
        return self.folder / site

    def remembered(self) -> dict[str, object]:
        """What a later call must agree with; a store's token is none of it."""
        return {
            "kind": "stitch.demo/1",
            "sites": list(self.sites),
            "passes": self.passes,
            "store": str(parse_location(self.store)) if self.store else OWN_STORE,
            "project": str(self.project) if self.project else None,
            "policy": self.policy.value,
            "privacy": self.privacy or None,  # absent from what older versions remembered
        }

    def remember(self) -> None:
        """Mark the folder as built, and with what."""
        with disk(self.folder):
            text = json.dumps(self.remembered(), indent=2) + "\n"
            write_file(self.folder / MARK, text.encode("utf-8"), durable=False)

    def check(self) -> None:
        """Refuse to continue another demo than the one that lies there.

        Raises:
            ConfigError: it was begun with other options; they are named. Or the folder holds
                something else.
        """
        if not self.built:
            self._check_free()
            return
        before = {"policy": DemoPolicy.ALL_EXPECTED.value} | _read(self.folder / MARK)
        now = self.remembered()
        differing = [name for name in now if name != "kind" and before.get(name) != now[name]]
        if differing:
            had = ", ".join(f"{name} {_said(before.get(name))}" for name in differing)
            raise ConfigError(
                f"the demo in {self.folder} was begun with {had}",
                hint="Give the same options to continue it, or another --dir for a new one.",
            )

    def _check_free(self) -> None:
        """A half-built demo is continued; a folder of somebody else's is left alone."""
        if not self.folder.is_dir():
            return
        ours = {*self.sites, *SITES, OWN_STORE}
        others = [
            item.name for item in self.folder.iterdir() if item.name not in ours and item.name[:1] != "."
        ]
        if others:
            raise ConfigError(
                f"{self.folder} holds something else ({others[0]})", hint="Name a new folder with --dir."
            )


def plan_of(
    folder: Path,
    *,
    project: Path | None,
    sites: int | None,
    passes: int,
    store: str,
    policy: DemoPolicy = DemoPolicy.ALL_EXPECTED,
    privacy: bool = False,
) -> Plan:
    """The demo that the command line asks for.

    Args:
        folder: where it is put.
        project: whose hooks are federated; None for the numpy template.
        sites: how many; None for 3, or for all of the project's.
        passes: how many.
        store: a URL; "" for a folder of the demo's own.
        policy: when a round closes.
        privacy: with clip and noise.

    Raises:
        ConfigError: the project, its roster or the store's URL cannot be used.
    """
    url = _absolute(store) if store else ""
    if project is not None and privacy:
        raise ConfigError(
            "--privacy is the demo's own; a project has its own settings",
            hint="Write a [privacy] table into the project's stitch.toml: docs/privacy.md.",
        )
    if project is not None:
        made = plan_of_project(folder, project, sites=sites, passes=passes, store=url)
    else:
        made = Plan(folder.absolute(), SITES[: sites or 3], passes, url, None)
    return replace(made, policy=policy, privacy=privacy)


def _absolute(store: str) -> str:
    """The store's URL, the same for projects in any folder."""
    place = parse_location(store)
    if place.kind == "memory":
        raise ConfigError(
            "memory: is no store for several processes",
            hint="Leave out --store, or name a folder or container.",
        )
    if place.folder is None:
        return store
    if not place.folder.is_dir():
        raise ConfigError(
            f"the store folder {place.folder} does not exist",
            hint="Make it first: a mistyped path must not look like an empty store.",
        )
    return str(place.folder.absolute())


def plan_of_project(folder: Path, project: Path, *, sites: int | None, passes: int, store: str) -> Plan:
    """A demo of a project's own hooks, among the first `sites` of its own roster.

    Raises:
        ConfigError: there is no project, it has no demo data, or fewer sites.
    """
    root = project.absolute()
    settings = root / "stitch.toml"
    if not settings.is_file():
        raise ConfigError(f"there is no stitch.toml in {root}", hint="Give --project a project folder.")
    if not (root / "demo" / "make_synthetic.py").is_file():
        raise ConfigError(
            f"{root} has no demo/make_synthetic.py, so there is no data to try it on",
            hint="Add one: python demo/make_synthetic.py --site NAME --index I --of N --out DIR.",
        )
    text = read_text(settings)
    toml = parse_stitch_file(text)
    names = _roster(tomllib.loads(text).get("sites"), toml.lead)
    count = len(names) if sites is None else sites
    if count > len(names):
        raise ConfigError(
            f"the project has {len(names)} sites, not {count}",
            hint="Give a smaller --sites, or leave it out.",
        )
    return Plan(folder.absolute(), names[:count], passes, store, root)


def _roster(sites: object, lead: str) -> tuple[str, ...]:
    names = [str(name).strip().lower() for name in sites] if isinstance(sites, Sequence) else []
    first = lead.strip().lower()
    return (first, *(name for name in names if name != first))


def _read(file: Path) -> dict[str, object]:
    try:
        raw = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raw = None
    if not isinstance(raw, dict):
        raise BadDocument(
            f"{file} is not readable", hint="Remove that demo folder, or name another with --dir."
        )
    return raw


def _said(value: object) -> str:
    return f"{len(value)} sites" if isinstance(value, list) else str(value)
