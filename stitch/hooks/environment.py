"""The environment a hook's child starts with: no store credential in it (law 9)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

from stitch.hooks.call import HookCall

# Whatever could open a store: STITCH's own URLs, Azure's and managed identities' variables, and any
# name or value that looks like a shared access signature or an account key.
_SECRET_NAME = re.compile(
    r"STITCH_|AZURE_|(?:IDENTITY|MSI)_(?:ENDPOINT|HEADER|SECRET)\Z|(?:\w+_)?SAS(?:_\w+)?\Z", re.IGNORECASE
)
_SECRET_VALUE = re.compile(r"sig(?:=|%(?:25)*3d)|SharedAccess(?:Signature|Key)|AccountKey=", re.IGNORECASE)

RUN_MARK = "STITCH_HOOK_RUN"
"""Carried by every process of one hook run, however deep: a survivor is known by it."""

# Windows takes 32,767 characters in a variable, Linux 128 KiB; a longer value is in its file alone.
_LONGEST_VALUE = 30_000


def child_environment(environ: Mapping[str, str], *, mark: str) -> dict[str, str]:
    """`environ` without any store credential, in UTF-8 mode, marked as one hook run."""
    kept = {name: value for name, value in environ.items() if not is_secret(name, value)}
    return {**kept, "PYTHONUTF8": "1", "PYTHONIOENCODING": "utf-8", RUN_MARK: mark}


def is_secret(name: str, value: str) -> bool:
    """Whether a variable could be a store's credential, by its name or by its value."""
    return bool(_SECRET_NAME.match(name) or _SECRET_VALUE.search(value))


def command_variables(call: HookCall, *, metrics_path: Path) -> dict[str, str]:
    """What a command is told, as `STITCH_<NAME>` variables.

    None is the empty string, a boolean `true` or `false`. A map or a list is JSON text, and also a
    file in the run's scratch folder that `STITCH_<NAME>_PATH` names.
    """
    variables = {"STITCH_HOOK": call.hook, "STITCH_METRICS_PATH": str(metrics_path)}
    for name, value in {**call.required, **call.optional}.items():
        variable = f"STITCH_{name.upper()}"
        if isinstance(value, Mapping | list | tuple):
            text = json.dumps(value, ensure_ascii=False)
            path = call.work_dir / f"{name}.json"
            path.write_text(text, encoding="utf-8")
            variables[f"{variable}_PATH"] = str(path)
            variables[variable] = text if len(text) <= _LONGEST_VALUE else ""
        else:
            variables[variable] = _as_text(value)
    return variables


def _as_text(value: object) -> str:
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)
