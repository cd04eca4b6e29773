"""What `setup` asks, what it makes of a kit from the lead, and what it writes."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import typer

from stitch.cli.saying import spoken
from stitch.config import names
from stitch.config.environment import (
    ENV_FILES,
    STORE,
    STORE_GLOBAL,
    STORE_SITE,
    is_store_variable,
    parse_env,
    statements,
)
from stitch.config.explain import nearest
from stitch.config.load import FILE, parse_stitch_file
from stitch.config.site_file import ALIASES, PLACES, SiteFile, find_site_file, read_site_file
from stitch.config.text import read_text, write_text
from stitch.config.urls import repair_url, without_token
from stitch.errors import ConfigError

_TRIES = 3
_TEMPLATE = "config/config_template.json"
_KIT_SITE = "STITCH_SITE"
# What a kit may set: nothing that could change how programs on this machine run.
_KIT_EXTRAS = frozenset({"HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY"})


class Terminal(Protocol):
    """The person at the site."""

    def ask(self, question: str, default: str = "") -> str:
        """A line that may be seen; the default when it is empty."""
        ...

    def ask_secret(self, question: str) -> str:
        """A line that is not shown; "" when it is empty."""
        ...

    def say(self, line: str) -> None:
        """Tell them something."""
        ...


class Console:
    """The terminal this process runs in, or what is piped into it."""

    def ask(self, question: str, default: str = "") -> str:
        """See `Terminal`."""
        try:
            return str(typer.prompt(question, default=default, show_default=bool(default))).strip()
        except typer.Abort:
            if sys.stdin.isatty():  # Ctrl-C at a question
                raise KeyboardInterrupt from None
            raise ConfigError(
                f"{question}: nobody answers here",
                hint="Run `clif-stitch setup` in a terminal, or write the files by hand: config/README.md.",
            ) from None

    def ask_secret(self, question: str) -> str:
        """See `Terminal`. A pipe is read as it is: there is no echo to turn off."""
        if sys.stdin.isatty():
            try:
                return str(typer.prompt(question, default="", show_default=False, hide_input=True)).strip()
            except typer.Abort:
                raise KeyboardInterrupt from None
        typer.echo(f"{question}: ", nl=False)
        line = sys.stdin.readline()
        typer.echo()
        return line.strip()

    def say(self, line: str) -> None:
        """See `Terminal`."""
        typer.echo(spoken(line, sys.stdout, indent=2))


@dataclass(frozen=True, slots=True)
class Roster:
    """Who may be named as this site."""

    lead: str
    sites: tuple[str, ...]


def set_up(root: Path, kit: Path | None, *, terminal: Terminal) -> None:
    """Ask for what is missing, then write the site's file and `.env`.

    Args:
        root: the project folder.
        kit: a file of NAME=value lines from the lead.
        terminal: who answers.

    Raises:
        ConfigError: no project here, a file that cannot be read or written, or no usable answer.
    """
    roster = _roster(root)
    given = _read_kit(kit, terminal) if kit else {}
    path = find_site_file(root)
    file = read_site_file(path, root=root) if path else SiteFile(PLACES[0], {}, _template(root))
    site = _ask_site(roster, given.pop(_KIT_SITE, "") or file.known.get("site_name", ""), terminal)
    data = _ask_data(root, file.known.get("data_directory", ""), terminal)
    before = _env_text(root)
    urls = given if any(map(is_store_variable, given)) else _ask_urls(roster, site, before, terminal)
    answers = {"site_name": site, "data_directory": data}
    write_text(root / file.name, json.dumps(_merged(file, answers), indent=2, ensure_ascii=False) + "\n")
    write_text(root / ENV_FILES[0], updated_env(before, {**given, **urls}))
    terminal.say(f"Wrote {file.name} and .env; both stay on this machine.")
    if kit:
        terminal.say(f"Delete {kit.name} now: its tokens are in .env.")


def _roster(root: Path) -> Roster:
    if not (root / FILE).is_file():
        raise ConfigError(f"there is no {FILE} here", hint="Run `clif-stitch setup` in the project folder.")
    toml = parse_stitch_file(read_text(root / FILE))
    sites = names.roster(toml.sites, where=f"{FILE}: sites")
    return Roster(names.site_id(toml.lead, where=f"{FILE}: lead"), sites)


def _template(root: Path) -> Mapping[str, object]:
    """The project's own example of a site's file, without its placeholders."""
    if not (root / _TEMPLATE).is_file():
        return {}
    file = read_site_file(root / _TEMPLATE, root=root)
    return {key: value for key, value in file.raw.items() if key not in ("site_name", "data_directory")}


def _merged(file: SiteFile, answers: Mapping[str, str]) -> dict[str, object]:
    """The site's file with the answers under the spelling it already uses, all else kept."""
    merged: dict[str, object] = {}
    for key, value in answers.items():
        spelling = next((name for name in ALIASES[key] if name in file.raw), key)
        merged[spelling] = value
    return {**merged, **file.raw, **merged}


def _read_kit(kit: Path, terminal: Terminal) -> dict[str, str]:
    """The kit's variables with their URLs mended."""
    if not kit.is_file():
        raise ConfigError(f"{kit} is no file", hint="Give the path of the file that the lead sent you.")
    text = read_text(kit)
    if re.match(r"\W*https?\W", text.lstrip(), re.IGNORECASE):  # the URL alone
        text = f"{STORE}={' '.join(text.split())}"
    given: dict[str, str] = {}
    for name, value in parse_env(text, file=kit.name).items():
        if is_store_variable(name):
            given[name] = _mended(value, name, terminal)
        elif name in _KIT_EXTRAS or name == _KIT_SITE or name.startswith("AZURE_STORAGE_"):
            given[name] = value
        else:
            terminal.say(f"{kit.name}: {name} was left out, it is no setting of a store.")
    if not any(map(is_store_variable, given)):
        raise ConfigError(f"{kit.name} names no store", hint=f"Wanted a line {STORE}=... in it.")
    return {name: value for name, value in given.items() if value}


def _mended(text: str, name: str, terminal: Terminal) -> str:
    url, notes = repair_url(text)
    for note in notes:
        terminal.say(f"{name}: {note}.")
    if "?" in url and "sig=" not in url:
        raise ConfigError(
            f"{name}: the token has no signature (sig=)", hint="Copy the whole URL, to its end."
        )
    terminal.say(f"{name}: {without_token(url)}")
    return url


def _ask_site(roster: Roster, default: str, terminal: Terminal) -> str:
    known = ", ".join(roster.sites)
    for _ in range(_TRIES):
        answer = terminal.ask(f"Which site is this ({known})", default.strip().lower()).lower()
        if answer in roster.sites:
            return answer
        close = nearest(answer, roster.sites)
        terminal.say(f"{answer!r} is not one of the sites." + (f" Did you mean {close}?" if close else ""))
        default = close
    raise ConfigError("no site was chosen", hint=f"Answer with one of: {known}.")


def _ask_data(root: Path, default: str, terminal: Terminal) -> str:
    for _ in range(_TRIES):
        answer = terminal.ask("Folder of your CLIF tables", default).strip("\"'")
        if answer and (root / Path(answer).expanduser()).is_dir():
            return answer
        terminal.say(f"{answer!r} is no folder on this machine.")
    raise ConfigError("no data folder was given", hint="Give the folder that holds your CLIF tables.")


def _ask_urls(roster: Roster, site: str, before: str, terminal: Terminal) -> dict[str, str]:
    """The store URLs; empty answers keep what `.env` has."""
    had = {name for name, value in parse_env(before, file=".env").items() if value}
    empty = "empty: keep what .env has" if any(map(is_store_variable, had)) else "empty: one URL a lane"
    terminal.say("Paste the store URL you were given; it is not shown.")
    base = _ask_url(STORE, f"Store URL for all lanes ({empty})", terminal)
    if base:
        return {STORE: base}
    if STORE in had:
        return {}
    wanted = {STORE_GLOBAL: "the global lane", STORE_SITE: f"the lane of {site}"}
    if site == roster.lead:
        wanted |= {
            names.lane_variable(other): f"the lane of {other}" for other in roster.sites if other != site
        }
    urls: dict[str, str] = {}
    for name, what in wanted.items():
        keep = " (empty: keep)" if name in had else ""
        url = _ask_url(name, f"Store URL for {what}{keep}", terminal)
        if url:
            urls[name] = url
        elif name not in had:
            raise ConfigError(
                f"{name} was not given", hint="Ask the lead for it, then run `clif-stitch setup`."
            )
    return urls


def _ask_url(name: str, question: str, terminal: Terminal) -> str:
    for _ in range(_TRIES):
        try:
            answer = terminal.ask_secret(question)
            return _mended(answer, name, terminal) if answer else ""
        except ConfigError as error:
            terminal.say(f"{error}. {error.hint}")
    raise ConfigError(f"{name} was not given", hint="Ask the lead for the URL in a file, and use it as KIT.")


def _env_text(root: Path) -> str:
    """What `.env`, or else `.env.txt`, says now."""
    for name in ENV_FILES:
        if (root / name).is_file():
            return read_text(root / name)
    return ""


def updated_env(text: str, values: Mapping[str, str]) -> str:
    """The text of a `.env` with these values, every other line kept.

    A new URL for all lanes replaces the lanes' own, which would win over it.
    """
    lines: list[str] = []
    left = dict(values)
    for one in statements(text.rstrip("\n"), file=".env"):
        if one.name in left:
            lines.append(f'{one.name}="{left.pop(one.name)}"')
        elif not (one.name in values or (STORE in values and is_store_variable(one.name))):
            lines.append(one.text)
    lines += [f'{name}="{value}"' for name, value in left.items()]
    return "\n".join(lines).strip("\n") + "\n"
