r"""`config/config.json`: what one site says about itself, in the dialects that CLIF projects use."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from stitch.config.explain import nearest
from stitch.config.secrets import refuse_tokens
from stitch.config.text import read_text
from stitch.errors import ConfigError

PLACES = ("config/config.json", "config/clif_config.json", "clif_config.json")
ALIASES: Mapping[str, tuple[str, ...]] = {
    "site_name": ("site_name", "site"),
    "data_directory": ("data_directory", "tables_path"),
    "filetype": ("filetype", "file_type"),
    "timezone": ("timezone",),
    "output_directory": ("output_directory",),
    "outbox": ("outbox",),
    "dataset": ("dataset",),
    "privacy_directory": ("privacy_directory",),
}
_PATH_KEYS = ("data_directory", "output_directory", "privacy_directory")
_BACKSLASHES = "In JSON a backslash starts an escape: write the path with / or with doubled backslashes"


@dataclass(frozen=True, slots=True)
class SiteFile:
    """The site's own file.

    Attributes:
        name: its path relative to the project, for messages.
        known: the keys of `ALIASES` that are present, under their first spelling.
        raw: the whole object as it stands.
    """

    name: str
    known: Mapping[str, str]
    raw: Mapping[str, object] = field(default_factory=dict)


def find_site_file(root: Path) -> Path | None:
    """The first of `PLACES` that exists."""
    return next((root / place for place in PLACES if (root / place).is_file()), None)


def read_site_file(path: Path, *, root: Path) -> SiteFile:
    """Read and check the site's file.

    Raises:
        ConfigError: no JSON object, a token inside, a known key that is no text, or two
            spellings of one key that disagree.
    """
    name = path.relative_to(root).as_posix()
    text = read_text(path)
    try:
        raw = _parse(text, name)
    except ConfigError:
        refuse_tokens(text, None, file=name)
        raise
    refuse_tokens(text, raw, file=name)
    known: dict[str, str] = {}
    for key, spellings in ALIASES.items():
        given = {spelling: raw[spelling] for spelling in spellings if spelling in raw}
        for spelling, value in given.items():
            _check(spelling, value, name=name, is_path=key in _PATH_KEYS)
        if len(set(given.values())) > 1:
            raise ConfigError(
                f"{name}: {' and '.join(given)} say different things", hint=f"Keep {next(iter(given))} alone."
            )
        if given:
            known[key] = str(next(iter(given.values())))
    return SiteFile(name, known, raw)


def needed(file: SiteFile, key: str) -> str:
    """The value of a key of `ALIASES` that must be there.

    Raises:
        ConfigError: it is absent; a key that looks like it is named.
    """
    if file.known.get(key):
        return file.known[key]
    others = [other for other in file.raw if all(other not in names for names in ALIASES.values())]
    close = next((other for other in others if nearest(other, ALIASES[key])), "")
    hint = f"Is {close!r} meant to be {key!r}?" if close else f'Add "{key}", or run `clif-stitch setup`.'
    raise ConfigError(f"{file.name}: {key!r} is missing", hint=hint)


def _check(key: str, value: object, *, name: str, is_path: bool) -> None:
    if not isinstance(value, str):
        kind = "a number" if isinstance(value, int | float) else "no text"
        raise ConfigError(f"{name}: {key!r} is {kind}, wanted text in quotes", hint=f'Write "{key}": "...".')
    if is_path and re.search(r"[\x00-\x1f]", value):
        # "C:\temp" is legal JSON, but its \t is a tab.
        shown = value.translate({9: "/t", 10: "/n", 13: "/r", 8: "/b", 12: "/f"}).replace("\\", "/")
        raise ConfigError(f"{name}: {key!r} holds a control character", hint=f'{_BACKSLASHES}: "{shown}".')


def _parse(text: str, name: str) -> dict[str, object]:
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise _syntax(error, text, name) from None
    except RecursionError:
        raise ConfigError(f"{name}: nested too deeply", hint="Keep it to one flat object.") from None
    if not isinstance(value, dict):
        raise ConfigError(f"{name}: wanted an object in braces", hint='Write {"site_name": "...", ...}.')
    return value


def _syntax(error: json.JSONDecodeError, text: str, name: str) -> ConfigError:
    lines = text.split("\n")
    line = lines[error.lineno - 1] if error.lineno <= len(lines) else ""
    if "escape" in error.msg and "\\" in line:
        mended = re.sub(r"\\+", "/", line.strip())
        return ConfigError(
            f"{name}, line {error.lineno}: a single backslash in a path", hint=f"{_BACKSLASHES}: {mended}"
        )
    return ConfigError(
        f"{name}, line {error.lineno}, column {error.colno}: not valid JSON ({error.msg})",
        hint="Texts in double quotes, a comma between entries and none after the last, no comments.",
    )
