"""From how a hook's process ended to an error with a name, a place and what to do about it."""

from __future__ import annotations

import json
import re
import signal
import sys
from pathlib import Path

from stitch.errors import HookError, HookFailed, HookOutput, HookTimeout
from stitch.hooks.call import HookCall
from stitch.hooks.process import Ended
from stitch.hooks.spec import hook_name

_MEMORY_HINT = "Let the hook hold less data at a time, or give the machine more memory; then re-run."
_WINDOWS_CODES = {
    0xC0000005: "access violation",
    0xC0000017: "out of memory",
    0xC000001D: "illegal instruction",
    0xC0000094: "integer division by zero",
    0xC00000FD: "stack overflow",
    0xC0000135: "a DLL was not found",
    0xC0000139: "a DLL's entry point was not found",
    0xC000013A: "ended by Ctrl-C or its console",
    0xC0000374: "heap corruption",
    0xC0000409: "stack buffer overrun or abort",
}
_FAULT_LINE = re.compile(r'\s*File "(.+)", line (\d+) in ')


def exit_name(code: int, *, windows: bool = sys.platform == "win32") -> str:
    """An exit code by its name: "exit code 3", "killed by SIGSEGV", "0xC0000005 (access violation)"."""
    if windows:
        name = _WINDOWS_CODES.get(code & 0xFFFFFFFF)
        return f"0x{code & 0xFFFFFFFF:08X} ({name})" if name else f"exit code {code}"
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"killed by signal {-code}"


def read_result(path: Path) -> dict[str, object]:
    """What the child wrote about the hook's call; empty if it did not come so far."""
    try:
        result = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return result if isinstance(result, dict) else {}


def timed_out(call: HookCall, *, detail: str) -> HookTimeout:
    """The hook was ended because it ran longer than it may."""
    seconds = call.timeout_s or 0.0
    limit = f"{seconds / 60:g} minutes" if seconds >= 120 else f"{seconds:g} s"
    return HookTimeout(
        f"the {call.hook} hook {hook_name(call.spec)} ran longer than {limit} and was ended",
        hint="Raise [hooks] timeout_minutes, or let the hook do less; then re-run.",
        hook=call.hook,
        kind="timeout",
        detail=detail,
    )


def failure(
    call: HookCall, ended: Ended, result: dict[str, object], *, fault: str, log_tail: str
) -> HookError | None:
    """The error that a run came to, or None if the hook returned and its process ended well.

    Args:
        call: the hook run.
        ended: how its process ended.
        result: what `child` wrote, {} for a command.
        fault: what `faulthandler` wrote when the interpreter crashed.
        log_tail: the last of what the hook printed: the detail where there is no traceback.
    """
    name = hook_name(call.spec)
    if "refused" in result:
        return HookFailed(
            f"the {call.hook} hook {name} cannot be called: {result['refused']}",
            hint="Correct [hooks] in stitch.toml or the hook's signature (docs/hooks.md).",
            hook=call.hook,
            kind="not callable",
        )
    if ended.how == "lost":
        return _ended_badly(call, ended.code, detail=log_tail, what="lost its guard process")
    if isinstance(error := result.get("error"), dict):
        return _raised(call, error)
    if ended.code < 0 or (ended.code and "exit" not in result):
        where = _fault_place(call.root, fault)
        return _ended_badly(call, ended.code, where=where, detail=fault + log_tail, late="returned" in result)
    if isinstance(leaving := result.get("exit"), dict):
        where = str(leaving.get("where", ""))
        return _ended_badly(call, int(leaving.get("code", ended.code)), where=where, detail=log_tail)
    if isinstance(call.spec, str) and "returned" not in result:
        return _ended_badly(call, ended.code, detail=log_tail)
    if isinstance(call.spec, str) and result["returned"] is None:
        return HookOutput(
            f"the {call.hook} hook {name} returned {result.get('type')}, not a map of metrics",
            hint='End it with: return {"n_samples": n, "loss": loss}.',
            hook=call.hook,
            kind="HookOutput",
        )
    return None


def _raised(call: HookCall, error: dict[str, object]) -> HookFailed:
    kind, where = str(error.get("kind", "")), str(error.get("where", ""))
    place = f" at {where}" if where else ""
    return HookFailed(
        f"the {call.hook} hook {hook_name(call.spec)} raised {kind}{place}",
        hint=_MEMORY_HINT if kind == "MemoryError" else "",
        hook=call.hook,
        kind=kind,
        where=where,
        detail=str(error.get("traceback", "")),
    )


def _ended_badly(
    call: HookCall, code: int, *, detail: str, where: str = "", what: str = "", late: bool = False
) -> HookFailed:
    kind = exit_name(code)
    verb = what or ("was " + kind if kind.startswith("killed") else f"ended with {kind}")
    hint = ""
    if code == -9 and not what:  # SIGKILL, which exists on POSIX alone
        verb, hint = "was killed (SIGKILL), probably because memory ran out", _MEMORY_HINT
    place = f" at {where}" if where else ""
    if late:
        verb += " after it had returned, while its interpreter shut down"
    elif code == 0 and not what:
        verb += " before it returned its metrics"
    return HookFailed(
        f"the {call.hook} hook {hook_name(call.spec)} {verb}{place}",
        hint=hint,
        hook=call.hook,
        kind=kind.removeprefix("killed by "),
        where=where,
        detail=detail,
    )


def _fault_place(root: Path, fault: str) -> str:
    """`file:line` of the user's own deepest frame in a `faulthandler` dump (deepest first)."""
    base = root.absolute()
    for line in fault.splitlines():
        match = _FAULT_LINE.match(line)
        if match and Path(match[1]).is_relative_to(base) and "site-packages" not in match[1]:
            return f"{Path(match[1]).relative_to(base).as_posix()}:{match[2]}"
    return ""
