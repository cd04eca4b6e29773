"""From a validator's complaint to one line that a person at a site can act on."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from stitch.errors import ConfigError

_KINDS: tuple[tuple[type, str], ...] = (
    (bool, "true/false"),
    (str, "text"),
    (int, "a whole number"),
    (float, "a number"),
    (list, "a list"),
    (dict, "a table"),
)


_CLASSES = {"hooks.strategy": "stitch.learning", "hooks.client": "code/client.py"}
"""Keys that name a class, and where it mostly is."""

_MEANT = {"admission": "What looks into models is a hook: write it as admit under [hooks]."}
"""Tables that there are not, though one might look for them."""


def nearest(word: str, among: Iterable[str]) -> str:
    """The one of `among` that looks most like `word`, "" when none does."""
    folded = {name.lower(): name for name in among}
    close = difflib.get_close_matches(word.lower(), folded, n=1, cutoff=0.6)
    return folded[close[0]] if close else ""


def dotted_keys(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """Every key of a schema, tables as `table.key`."""
    for name, field in model.model_fields.items():
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            yield from dotted_keys(inner, prefix + name + ".")
        else:
            yield prefix + name


def explain(error: ValidationError, model: type[BaseModel], *, file: str) -> ConfigError:
    """The first complaint, an unknown key before the rest, as a `ConfigError`."""
    details = sorted(error.errors(), key=lambda item: item["type"] != "extra_forbidden")
    places = {".".join(str(part) for part in _place(item, model)[0]) for item in details}
    cause, hint = _one(details[0], model)
    more = f" (and {len(places) - 1} more)" if len(places) > 1 else ""
    return ConfigError(f"{file}: {cause}{more}", hint=hint)


def _place(item: ErrorDetails, model: type[BaseModel]) -> tuple[tuple[str, ...], str]:
    """The complaint's key as far as the schema knows it, and what the schema wants there."""
    path: list[str] = []
    wanted, inner = "", model
    for part in item["loc"]:
        path.append(str(part))
        field = inner.model_fields.get(str(part))
        if field is None:
            break
        wanted = field.description or ""
        if not (isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel)):
            break
        inner = field.annotation
    return tuple(path), wanted


def _one(item: ErrorDetails, model: type[BaseModel]) -> tuple[str, str]:
    path, wanted = _place(item, model)
    key = ".".join(path)
    if item["type"] == "extra_forbidden":
        return f"unknown key {key!r}", _where_else(path, model)
    if item["type"] == "missing":
        return f"{key!r} is missing", f"Add {key} = ..., wanted {wanted}."
    given = item["input"]
    hint = f"Write {wanted} for {key}."
    if key in _CLASSES and isinstance(given, str) and given.isidentifier():
        hint = f'Say where the class is, such as "{_CLASSES[key]}:{given[:40]}".'
    return f"{key!r} is {_shown(given)}, wanted {wanted}", hint


def _where_else(path: tuple[str, ...], model: type[BaseModel]) -> str:
    """Where the unknown key was probably meant to stand."""
    keys = list(dotted_keys(model))
    *table, leaf = path
    if not table and leaf in _MEANT:
        return _MEANT[leaf]
    same = [key for key in keys if key.rsplit(".", 1)[-1] == leaf.lower()]
    if same and "." not in same[0] and table:
        return f"{leaf} stands at the top of the file, above the first [table]."
    if same and "." in same[0]:
        home, name = same[0].split(".")
        return f"Write it as {name} under [{home}]."
    here = [key.rsplit(".", 1)[-1] for key in keys if key.split(".")[:-1] == table]
    tables = [] if table else [name for name in model.model_fields if name not in here]
    guess = nearest(leaf, [*here, *tables])
    if guess:
        return f"The nearest valid key is {guess!r}{f' under [{table[0]}]' if table else ''}."
    guess = nearest(leaf, [key.rsplit(".", 1)[-1] for key in keys])
    if guess:
        full = next(key for key in keys if key.rsplit(".", 1)[-1] == guess)
        return f"The nearest valid key is {full!r}."
    return f"Valid here: {', '.join([*here, *tables])}."


def _shown(value: object) -> str:
    name = next((name for kind, name in _KINDS if isinstance(value, kind)), "a date or time")
    if isinstance(value, Mapping):
        return name
    text = ("true" if value else "false") if isinstance(value, bool) else repr(value)
    text = text if len(text) <= 40 else text[:37] + "..."
    return f"{text} ({name})"
