"""Finding tokens where none may be: `stitch.toml` and `config/config.json` are read by many."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from stitch.errors import ConfigError

_TOKEN = re.compile(
    r"(?<![a-z])(?:sig|accountkey|sharedaccesssignature)\s*(?:=|%3d)\s*[^\s\"'&;<]", re.IGNORECASE
)
_KEY_NAMES = frozenset({"accountkey", "sharedaccesssignature", "sastoken", "accountkeys"})


def holds_token(text: str) -> bool:
    """Whether `text` looks like it holds a SAS signature or an account key."""
    return _TOKEN.search(text) is not None


def _tokens(value: object, path: str) -> Iterator[str]:
    """The dotted keys under `value` that hold a token."""
    if isinstance(value, str):
        if holds_token(value):
            yield path
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            name = f"{path}.{key}" if path else str(key)
            folded = str(key).lower().replace("_", "").replace("-", "")
            if folded in _KEY_NAMES and isinstance(inner, str) and inner:
                yield name
            else:
                yield from _tokens(inner, name)
    elif isinstance(value, Sequence):
        for number, inner in enumerate(value, start=1):
            yield from _tokens(inner, f"{path}[{number}]")


def refuse_tokens(text: str, value: object, *, file: str) -> None:
    """Refuse a file that holds a token, naming its key or line and never its value.

    Args:
        text: the file as it stands, since a comment is committed like any other line.
        value: what was parsed from it; None when it cannot be parsed.
        file: its name, for the message.

    Raises:
        ConfigError: a token was found.
    """
    place = next(_tokens(value, ""), "")
    if not place:
        lines = (number for number, line in enumerate(text.split("\n"), start=1) if holds_token(line))
        number = next(lines, 0)
        if not number:
            return
        place = f"line {number}"
    raise ConfigError(
        f"{file} holds a store token ({place}); tokens belong in .env alone",
        hint="Remove it there, put it into .env (`clif-stitch setup`), and ask the lead for a new one "
        "if the file was ever shared.",
    )
