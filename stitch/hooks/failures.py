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
_CALL_HINT = "Correct [hooks] in stitch.toml, or the function and what it accepts (docs/hooks.md)."
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
    call: HookCall, ended: Ended, *, result: dict[str, object], fault: str, log_tail: str
) -> HookError | None:
    """The error that a run came to, or None if the hook returned and its process ended well.

    Args:
        call: the hook run.
        ended: how its process ended.
        result: what `child` wrote, {} for a command.
        fault: what `faulthandler` wrote when the interpreter crashed.
        log_tail: the last of what the hook printed: the detail where there is no traceback.
    """
    if "refused" in result:
        return _named(call, f"cannot be called: {result['refused']}", kind="not callable", hint=_CALL_HINT)
    error = result.get("error")
    if isinstance(error, dict):
        return _raised(call, error)
    python = isinstance(call.spec, str)
    if ended.how == "lost" or ended.code or (python and "returned" not in result):
        return _ended_badly(call, ended, result, fault=fault, log_tail=log_tail)
    if python and result["returned"] is None:
        return HookOutput(
            f"the {call.hook} hook {hook_name(call.spec)} returned {result.get('type')}, not a map",
            hint='End it with: return {"n_samples": n, "loss": loss}.',
            hook=call.hook,
            kind="HookOutput",
        )
    return None


def _raised(call: HookCall, error: dict[str, object]) -> HookFailed:
    kind, where = str(error.get("kind", "")), str(error.get("where", ""))
    hint = _MEMORY_HINT if kind == "MemoryError" else ""
    detail = str(error.get("traceback", ""))
    if said := str(error.get("said", "")):  # our own words, of code of ours that ran in the hook's process
        cause = f"the {call.hook} hook {hook_name(call.spec)}: {said}"
        hint = str(error.get("hint", "")) or hint
        return HookFailed(cause, hint=hint, hook=call.hook, kind=kind, where=where, detail=detail)
    return _named(call, f"raised {kind}", kind=kind, where=where, hint=hint, detail=detail)


def _ended_badly(
    call: HookCall, ended: Ended, result: dict[str, object], *, fault: str, log_tail: str
) -> HookFailed:
    leaving = result.get("exit")
    left_at = str(leaving.get("where", "")) if isinstance(leaving, dict) else ""
    kind, hint = exit_name(ended.code), ""
    what = f"was {kind}" if kind.startswith("killed") else f"ended with {kind}"
    if ended.how == "lost":
        what = "lost the process that guards it"
    elif ended.code == -9:  # SIGKILL, and not from us; Windows has no negative codes
        what, hint = "was killed (SIGKILL), probably because memory ran out", _MEMORY_HINT
    if "returned" in result:
        what += " after it had returned, while its interpreter shut down"
    elif ended.code == 0 and ended.how != "lost":
        what += " before it returned its metrics"
    return _named(
        call,
        what,
        kind=kind.removeprefix("killed by "),
        where=left_at or _fault_place(call.root, fault),
        hint=hint,
        detail=log_tail,
    )


def _named(
    call: HookCall, what: str, *, kind: str, where: str = "", hint: str = "", detail: str = ""
) -> HookFailed:
    cause = f"the {call.hook} hook {hook_name(call.spec)} {what}{f' at {where}' if where else ''}"
    return HookFailed(cause, hint=hint, hook=call.hook, kind=kind, where=where, detail=detail)


def _fault_place(root: Path, fault: str) -> str:
    """`file:line` of the user's own deepest frame in a `faulthandler` dump (deepest first)."""
    base = root.absolute()
    for line in fault.splitlines():
        match = _FAULT_LINE.match(line)
        if match and Path(match[1]).is_relative_to(base) and "site-packages" not in match[1]:
            return f"{Path(match[1]).relative_to(base).as_posix()}:{match[2]}"
    return ""
