"""What a hook gave back, checked before anything else looks at it (law 8)."""

from __future__ import annotations

import json
import math
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from stitch.errors import HookOutput
from stitch.hooks.call import HookCall

MOST_KEYS = 64
MOST_BYTES = 16 * 1024
_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}")
_MB = 1_000_000  # as transfer.max_file_mb counts
_MOST_SAMPLES = 2**53  # what every JSON reader holds exactly
_NUMBERS = "Return plain numbers: float(value), int(value)."
_FEWER = "Return fewer or shorter metrics."
_KINDS: dict[type, str] = {
    bool: "a boolean",
    float: "a float",
    int: "an integer",
    str: "text",
    list: "a list",
    dict: "a map",
}

Stamp = tuple[int, int, int] | None


@dataclass(frozen=True, slots=True)
class Checked:
    """The returned map after its checks; see `HookResult`."""

    n_samples: int
    metrics: dict[str, float]
    should_stop: bool


def stamp(path: Path | None) -> Stamp:
    """What tells a file from the same name written anew; None where there is no file."""
    try:
        seen = path.lstat() if path is not None else None
    except OSError:
        return None
    return None if seen is None else (seen.st_ino, seen.st_size, seen.st_mtime_ns)


def check_model(call: HookCall, *, before: Stamp) -> None:
    """Check the model file that the hook wrote.

    Args:
        call: the hook run; nothing is checked if its `out_path` is None, or of `leaves`.
        before: `stamp(call.out_path)` from before the hook ran.

    Raises:
        HookOutput: it is missing, not a regular file, empty, not written by this run, or too large.
    """
    path = call.out_path
    if path is None or call.hook == "leaves":  # its file is written by our own side of the child
        return
    try:
        seen = path.lstat()
    except OSError:
        _refuse(call, f"wrote no {path.name}{_written_instead(path)}", hint=_model_hint(path))
    if stat.S_ISLNK(seen.st_mode):
        _refuse(call, f"made {path.name} a symbolic link", hint="Write the file itself at out_path.")
    if not stat.S_ISREG(seen.st_mode):
        _refuse(call, f"made {path.name} something else than a file", hint="Write one file at out_path.")
    if stamp(path) == before:
        _refuse(call, f"left {path.name} as it was before", hint=_model_hint(path))
    if seen.st_size == 0:
        _refuse(call, f"wrote an empty {path.name}", hint="Close the file before the hook returns.")
    if seen.st_size > call.max_bytes:
        size = f"{seen.st_size / _MB:.1f} MB, over the limit of {call.max_bytes / _MB:g} MB"
        hint = "Write a smaller model, or raise transfer.max_file_mb at all sites."
        _refuse(call, f"wrote a {path.name} of {size}", hint=hint)


def _written_instead(path: Path) -> str:
    beside = sorted(
        entry.name
        for entry in (path.parent.iterdir() if path.parent.is_dir() else ())
        if entry.is_file() and entry.name.startswith(path.stem) and entry != path
    )
    return f" but {', '.join(beside[:3])}" if beside else ""


def _model_hint(path: Path) -> str:
    return f"Write to out_path exactly as given (some libraries add an ending): it ends in {path.suffix}."


def check_returned(
    call: HookCall, returned: Mapping[str, object], *, odd: Mapping[str, str] | None = None
) -> Checked:
    """Check the map that the hook returned.

    Args:
        call: the hook run.
        returned: the map, as JSON values.
        odd: keys whose values had no JSON value, with the name of their type.

    Raises:
        HookOutput: names the first key that breaks a rule, and the rule.
    """
    for key, kind in (odd or {}).items():
        _refuse(call, f"returned {_shown(key)} as {kind}", hint=_NUMBERS)
    _check_shape(call, returned)
    if call.hook != "aggregate" and "should_stop" in returned:
        _refuse(call, "returned should_stop", hint="Only the aggregate hook can stop the run.")
    should_stop = returned.get("should_stop", False)
    if not isinstance(should_stop, bool):
        what = f"returned should_stop as {_kind(should_stop)}"
        _refuse(call, what, hint="Return True or False: bool(value).")
    metrics = {
        key: _number(call, key, value)
        for key, value in returned.items()
        if key not in ("n_samples", "should_stop")
    }
    return Checked(_n_samples(call, returned), metrics, should_stop)


def _check_shape(call: HookCall, returned: Mapping[str, object]) -> None:
    if len(returned) > MOST_KEYS:
        _refuse(call, f"returned {len(returned)} keys, over the limit of {MOST_KEYS}", hint=_FEWER)
    for key in returned:
        if not _KEY.fullmatch(key):
            hint = "Names have 1-64 of A-Z a-z 0-9 _ . - and start with a letter or _."
            _refuse(call, f"returned a key that is no metric's name: {_shown(key)}", hint=hint)
    size = len(json.dumps(dict(returned)).encode())
    if size > MOST_BYTES:
        _refuse(call, f"returned {size} bytes as JSON, over the limit of {MOST_BYTES}", hint=_FEWER)


def _n_samples(call: HookCall, returned: Mapping[str, object]) -> int:
    if "n_samples" not in returned:
        if call.default_n_samples is None:
            _refuse(call, "returned no n_samples", hint='Return {"n_samples": rows used, ...}.')
        return call.default_n_samples
    value = returned["n_samples"]
    if isinstance(value, bool) or not isinstance(value, int):
        _refuse(call, f"returned n_samples as {_kind(value)}", hint="Return an integer: int(n).")
    if not 0 <= value <= _MOST_SAMPLES:
        hint = "It counts the rows that the model was fitted on."
        _refuse(call, f"returned {'a negative' if value < 0 else 'an impossible'} n_samples", hint=hint)
    return value


def _number(call: HookCall, key: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        _refuse(call, f"returned {_shown(key)} as {_kind(value)}", hint=_NUMBERS)
    try:
        finite, shown = math.isfinite(value), str(value)
    except OverflowError:
        finite, shown = False, "a number beyond a float"
    if not finite:
        hint = "Return finite numbers, and leave out what has none."
        _refuse(call, f"returned {_shown(key)} as {shown}", hint=hint)
    return value


def _kind(value: object) -> str:
    if value is None:
        return "nothing (null)"
    return _KINDS.get(type(value), type(value).__name__)


def _shown(key: str) -> str:
    return ascii(key[:64])


def read_metrics_file(call: HookCall, path: Path) -> dict[str, object]:
    """The map that a command wrote to `STITCH_METRICS_PATH`.

    A list of one number counts as that number: R's jsonlite writes every scalar like that.

    Raises:
        HookOutput: there is no file, or it is no JSON map.
    """
    hint = "Write one JSON map with n_samples to the file that STITCH_METRICS_PATH names."
    try:
        size = path.stat().st_size
        if size > 4 * MOST_BYTES:
            _refuse(call, f"wrote metrics of {size} bytes, over the limit of {MOST_BYTES}", hint=_FEWER)
        values = json.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        _refuse(call, "ended well but wrote no metrics", hint=hint)
    except (OSError, ValueError, RecursionError) as error:
        place = f" (line {error.lineno})" if isinstance(error, json.JSONDecodeError) else ""
        _refuse(call, f"wrote metrics that are no JSON{place}", hint=hint)
    if not isinstance(values, dict):
        _refuse(call, f"wrote metrics that are {_kind(values)}, not a map", hint=hint)
    return {key: _unboxed(value) for key, value in values.items()}


def _unboxed(value: object) -> object:
    return value[0] if isinstance(value, list) and len(value) == 1 else value


def _refuse(call: HookCall, what: str, *, hint: str) -> NoReturn:
    raise HookOutput(f"the {call.hook} hook {what}", hint=hint, hook=call.hook, kind="HookOutput")
