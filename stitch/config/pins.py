"""`[pins]`: files that every site must have alike, by name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from stitch.errors import ConfigError

MOST_PINS = 64
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./ -]{0,199}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_KEYS = {"path", "sha256", "when"}
_FORM = 'Write "shared/file.json" = "<sha256>", or a name = { path = "...", sha256 = "..." }.'


@dataclass(frozen=True, slots=True)
class Pin:
    """A file that every site must have with exactly these bytes.

    Attributes:
        path: relative to the project folder, with forward slashes.
        sha256: of its bytes.
        when: at every pass, or "pass_0": until the first pass is trained from global 0.
    """

    path: str
    sha256: str
    when: Literal["always", "pass_0"] = "always"


def pins_in_force(pins: Mapping[str, Pin], pass_id: int) -> dict[str, Pin]:
    """The pins that a pass must keep: a warm start matters for globals 0 and for the pass trained from it."""
    return {name: pin for name, pin in pins.items() if pin.when == "always" or pass_id <= 1}


def read_pins(table: Mapping[str, Any], *, where: str) -> dict[str, Pin]:
    """The pins of a `[pins]` table: a name is also the path, unless `path` says another one.

    Args:
        table: as read from TOML: a hash, or a table of `path`, `sha256` and `when`, by name.
        where: the file and table, for messages.

    Raises:
        ConfigError: a hash, a path or a name cannot be used; it is named.
    """
    if len(table) > MOST_PINS:
        raise ConfigError(f"{where}: {len(table)} pins, at most {MOST_PINS} are allowed", hint=_FORM)
    return {name: _pin(name, value, where=f"{where} {name[:60]!r}") for name, value in table.items()}


def _pin(name: str, value: object, *, where: str) -> Pin:
    if not _NAME.fullmatch(name):
        raise ConfigError(f"{where} cannot name a pin", hint="Use letters, digits and _ . / - in its name.")
    given = {"sha256": value} if isinstance(value, str) else value
    if not isinstance(given, dict) or not all(isinstance(word, str) for word in given.values()):
        raise ConfigError(f"{where} is neither a sha256 nor a table of texts", hint=_FORM)
    if unknown := sorted(given.keys() - _KEYS):
        raise ConfigError(f"{where}: unknown key {unknown[0]!r}", hint="A pin has path, sha256 and when.")
    sha256, when = given.get("sha256", "").lower(), given.get("when", "always")
    if not _SHA256.fullmatch(sha256):
        raise ConfigError(
            f"{where}: its sha256 is not 64 hex digits",
            hint="`sha256sum FILE` prints it; on Windows `certutil -hashfile FILE SHA256`.",
        )
    if when not in ("always", "pass_0"):
        raise ConfigError(
            f"{where}: when is {when[:40]!r}", hint='Write when = "pass_0" for a warm start, or leave it out.'
        )
    return Pin(
        _path(given.get("path", name), where=where), sha256, "pass_0" if when == "pass_0" else "always"
    )


def _path(text: str, *, where: str) -> str:
    path = text.replace("\\", "/")
    parts = path.split("/")
    if path.startswith("/") or ":" in parts[0] or ".." in parts or not path.strip("/. "):
        raise ConfigError(
            f"{where}: {text[:80]!r} is no file of this project",
            hint="Write a path relative to the folder of stitch.toml, without `..`.",
        )
    return "/".join(part for part in parts if part not in ("", "."))
