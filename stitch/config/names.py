"""The rule for names that become folders, keys and variables on every operating system.

This is the one place that states it; `layout` only parses keys that were made from such names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from stitch.errors import ConfigError

SITE_RULE = (
    "1 to 40 of a-z, 0-9 and -, starting with a letter, no trailing or double hyphen, "
    "no Windows device name (con, nul, com1, ...)"
)
RUN_RULE = (
    "1 to 64 of letters, digits and . _ -, starting with a letter or digit, no trailing dot, "
    "no Windows device name"
)
EXTENSION_RULE = 'one lower-case word without a dot, such as "npz", "json" or "safetensors"'

_SITE = re.compile(r"[a-z](?:-?[a-z0-9])*\Z")
_RUN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")
_EXTENSION = re.compile(r"[a-z][a-z0-9]{0,15}\Z")
_DEVICES = frozenset(
    ["con", "prn", "aux", "nul", "conin$", "conout$"]
    + [f"{port}{digit}" for port in ("com", "lpt") for digit in "123456789"]
)
# STITCH_STORE_<ID> names a lane's store, so these ids would shadow STITCH_STORE_GLOBAL and its kin.
_RESERVED = frozenset({"global", "site", "heartbeat"})
# Suffixes of files in the making: a model so named could be taken for half of one.
_UNFINISHED = frozenset({"part", "tmp", "lock"})


def is_device_name(text: str) -> bool:
    """Whether Windows takes this file name for a device, whatever follows its first dot."""
    return text.split(".", 1)[0].rstrip(" ").lower() in _DEVICES


def site_id(text: str, *, where: str) -> str:
    """The site id that `text` means: trimmed and lower-cased.

    Args:
        text: what a person wrote, in any case.
        where: the file and key it stands in, for the message.

    Raises:
        ConfigError: it breaks `SITE_RULE`.
    """
    name = text.strip().lower()
    if not _SITE.match(name) or len(name) > 40 or is_device_name(name):
        raise ConfigError(f"{where}: {text!r} cannot be a site id", hint=f"A site id is {SITE_RULE}.")
    if name in _RESERVED:
        raise ConfigError(
            f"{where}: {text!r} cannot be a site id: STITCH_STORE_{name.upper()} has a meaning of its own",
            hint="Choose another name for the site, the same in every site's stitch.toml.",
        )
    return name


def roster(names: Iterable[str], *, where: str) -> tuple[str, ...]:
    """The site ids of a list, in its order.

    Raises:
        ConfigError: a name is illegal, or two are one when case is folded.
    """
    seen: dict[str, str] = {}
    for text in names:
        name = site_id(text, where=where)
        if name in seen:
            raise ConfigError(
                f"{where}: {seen[name]!r} and {text!r} are the same site, since case does not count",
                hint="Give every site a name of its own.",
            )
        seen[name] = text
    return tuple(seen)


def run_id(text: str, *, where: str) -> str:
    """`text` itself, if it can name a run.

    Raises:
        ConfigError: it breaks `RUN_RULE`.
    """
    if not _RUN.match(text) or text.endswith((".", ".part", ".tmp", ".lock")) or is_device_name(text):
        raise ConfigError(f"{where}: {text!r} cannot be a run id", hint=f"A run id is {RUN_RULE}.")
    return text


def model_ext(text: str, *, where: str) -> str:
    """`text` itself, if it can be the extension of every model of the run.

    Raises:
        ConfigError: it is no single lower-case word, or a suffix of unfinished files.
    """
    if _EXTENSION.match(text) and text not in _UNFINISHED:
        return text
    last = text.rsplit(".", 1)[-1].lower()
    better = f' Did you mean "{last}"?' if _EXTENSION.match(last) and last not in _UNFINISHED else ""
    raise ConfigError(
        f"{where}: {text!r} cannot be the extension of a model file", hint=f"Wanted {EXTENSION_RULE}.{better}"
    )


def lane_variable(site: str) -> str:
    """The environment variable that holds the store URL of a site's lane, at the lead."""
    return "STITCH_STORE_" + site.upper().replace("-", "_")
