"""The environment a project runs in: the process's own, over `.env` or `.env.txt`; and its store URLs."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from stitch.config.names import lane_variable
from stitch.config.settings import Settings, StoreUrls
from stitch.config.text import read_text
from stitch.config.urls import repair_url
from stitch.errors import ConfigError

# Notepad saves `.env` as `.env.txt`; of a name that both hold, `.env` is believed.
ENV_FILES = (".env", ".env.txt")
STORE, STORE_GLOBAL, STORE_SITE = "STITCH_STORE", "STITCH_STORE_GLOBAL", "STITCH_STORE_SITE"
STORE_HEARTBEAT = "STITCH_STORE_HEARTBEAT"

_ASSIGNMENT = re.compile(r"\s*(?:export\s+|set\s+|\$env:)?([A-Za-z_]\w*)\s*=\s*(.*?)\s*\Z", re.IGNORECASE)
# A URL that a mail or an editor broke over lines goes on with one of a token's fields.
_TOKEN_FIELD = re.compile(r"\s*[&?]?(?:s[vetpri]|sig|sip|spr|ss|srt|sk[a-z]+)=")
_COMMENTS = ("#", "rem ", "@echo")
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]+:", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Statement:
    """One assignment of a `.env` file, or a line that is none.

    Attributes:
        text: its lines as they stand.
        name: the variable, "" for a comment or an empty line.
        value: without quotes and comment.
    """

    text: str
    name: str = ""
    value: str = field(repr=False, default="")


def statements(text: str, *, file: str) -> list[Statement]:
    """The lines of a `.env` file, a URL that was broken over lines as one.

    `export NAME=value`, `set NAME=value` and PowerShell's `$env:NAME = "value"` are read alike.
    Quotes around a value are taken off, and ` # comment` after an unquoted one.

    Raises:
        ConfigError: a line is no assignment (its number is named, never its content).
    """
    found: list[Statement] = []
    for number, line in enumerate(text.split("\n"), start=1):
        match = _ASSIGNMENT.match(line)
        last = found[-1] if found else Statement("")
        if not line.strip() or line.lstrip().lower().startswith(_COMMENTS):
            found.append(Statement(line))
        elif "://" in last.value and (match is None or _TOKEN_FIELD.match(line)):
            found[-1] = Statement(f"{last.text}\n{line}", last.name, last.value + line.strip())
        elif match is None:
            raise ConfigError(
                f"{file}, line {number}: not NAME=value", hint="One NAME=value a line, # before a comment."
            )
        else:
            found.append(Statement(line, match[1], match[2]))
    return [replace(one, value=_unquoted(one.value)) for one in found]


def parse_env(text: str, *, file: str) -> dict[str, str]:
    """The names and values of a `.env` file; of a name assigned twice, the last.

    Raises:
        ConfigError: as `statements`.
    """
    return {one.name: one.value for one in statements(text, file=file) if one.name}


def _unquoted(value: str) -> str:
    if value[:1] in ("'", '"'):
        end = value.find(value[0], 1)
        if end > 0 and (end == len(value) - 1 or value[end + 1 :].lstrip().startswith("#")):
            return value[1:end]
        return value
    return re.split(r"\s+#", value, maxsplit=1)[0].rstrip()


def reload_environ(root: Path, base_environ: Mapping[str, str]) -> dict[str, str]:
    """`base_environ` over what `.env` says now; an empty variable hides nothing.

    Raises:
        ConfigError: a file is unreadable or holds a line that is no assignment.
    """
    merged: dict[str, str] = {}
    for name in reversed(ENV_FILES):
        if (root / name).is_file():
            merged.update(parse_env(read_text(root / name), file=name))
    merged.update({name: value for name, value in base_environ.items() if value or name not in merged})
    return merged


def reload_urls(
    settings: Settings, base_environ: Mapping[str, str], *, also: tuple[str, ...] = ()
) -> Settings:
    """The same settings with the environment and the store URLs read anew.

    Args:
        settings: as they are.
        base_environ: the process environment; it wins over `.env`.
        also: sites that the roster has and `stitch.toml` has not.

    Raises:
        ConfigError: as `reload_environ`, or a URL cannot be used.
    """
    environ = reload_environ(settings.root, base_environ)
    urls = store_urls(environ, root=settings.root, site=settings.site, sites=(*settings.sites, *also))
    return replace(settings, environ=environ, urls=urls)


def store_urls(environ: Mapping[str, str], *, root: Path, site: str, sites: tuple[str, ...]) -> StoreUrls:
    """The store URL of every lane that the environment names; "" where it names none.

    Raises:
        ConfigError: a URL is mangled beyond repair; the variable is named.
    """
    given = {name: _url(environ[name], name=name, root=root) for name in environ if is_store_variable(name)}
    base = given.get(STORE, "")
    own = given.get(STORE_SITE) or given.get(lane_variable(site)) or base
    lanes = {other: own if other == site else given.get(lane_variable(other)) or base for other in sites}
    return StoreUrls(
        global_=given.get(STORE_GLOBAL) or base,
        site=own,
        heartbeat=given.get(STORE_HEARTBEAT) or own,
        lanes={other: url for other, url in lanes.items() if url},
        rest=base,
    )


def require_urls(settings: Settings) -> None:
    """Check that every lane this actor reads or writes has a store.

    Raises:
        ConfigError: a variable is missing; every missing one is named.
    """
    missing = []
    if not settings.urls.global_:
        missing.append(STORE_GLOBAL)
    if not settings.urls.site:
        missing.append(STORE_SITE)
    if settings.is_lead:
        others = (site for site in settings.sites if site != settings.site)
        missing += [lane_variable(site) for site in others if not settings.urls.lanes.get(site)]
    if missing:
        names = ", ".join(missing)
        raise ConfigError(
            f"no store URL is set: {STORE} (one for all lanes) or {names}",
            hint="Run `clif-stitch setup` with what the lead sent you, or put it into .env.",
        )


def is_store_variable(name: str) -> bool:
    """Whether a variable of this name holds a store URL."""
    return name == STORE or name.startswith(STORE + "_")


def _url(text: str, *, name: str, root: Path) -> str:
    if not text.strip():
        return ""
    try:
        url, _ = repair_url(text)
    except ConfigError as error:
        raise ConfigError(f"{name}: {error}", hint=error.hint) from None
    if _SCHEME.match(url) or re.match(r"[A-Za-z]:[\\/]|\\\\", url):
        return url
    # Not resolve(): on Windows that turns a mapped drive into a UNC path the person never saw.
    return Path(os.path.abspath(root / Path(url).expanduser())).as_uri()  # noqa: PTH100
