"""Hooks as plain functions in this process: for notebooks and for federations inside one test.

They keep no promise of law 9 (a hook that crashes takes the process along and sees its
environment); what they give back is checked exactly as a child's.
"""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from stitch.errors import ConfigError, HookError, HookFailed
from stitch.hooks.call import HookCall, HookName, HookResult, HookStopped
from stitch.hooks.child import plain, write_leaves
from stitch.hooks.output import Checked, check_model, check_returned, stamp
from stitch.hooks.runner import HookRunner

FILTERS: tuple[HookName, ...] = ("pre_release", "release", "expand", "pre_aggregate")
"""What a run that was set up with them never goes without: they run as configured if no function is given."""

HookFunction = Callable[..., Mapping[str, Any]]


def check_map(call: HookCall, returned: Mapping[str, Any]) -> Checked:
    """Check a map as the hook contract demands, NumPy scalars accepted.

    Raises:
        HookOutput: names the first key that breaks a rule.
    """
    values, odd = plain(returned)
    return check_returned(call, values, odd=odd)


class FunctionRunner:
    """Runs the given functions in place of the hooks of `stitch.toml`.

    Args:
        functions: by hook name; each is called with the required keyword arguments, and with
            those optional ones that it names.
        otherwise: runs the hooks for which there is no function; None refuses them.
    """

    def __init__(
        self, functions: Mapping[HookName, HookFunction], *, otherwise: HookRunner | None = None
    ) -> None:
        self._functions = dict(functions)
        self._otherwise = otherwise

    def run(
        self,
        call: HookCall,
        *,
        stop: threading.Event | None = None,
        on_line: Callable[[str], None] | None = None,
    ) -> HookResult:
        """Call the function and check what it gave back.

        Raises:
            HookFailed: it raised.
            HookOutput: its model file or its metrics cannot be used.
            HookStopped: `stop` was set before it began.
            ConfigError: no function was given for this hook.
        """
        if stop is not None and stop.is_set():
            raise HookStopped(call.hook)
        function = self._functions.get(call.hook)
        if function is None and (self._otherwise is not None or call.hook in FILTERS):
            return (self._otherwise or HookRunner()).run(call, stop=stop, on_line=on_line)
        if function is None:
            raise ConfigError(f"no {call.hook} function was given", hint=f"Pass {call.hook}_fn.")
        before, begun = stamp(call.out_path), time.monotonic()
        try:
            returned = function(**_arguments(function, call))
            if call.hook == "leaves" and call.out_path is not None:
                returned = {"n_samples": write_leaves(returned, call.out_path)}
        except HookError:
            raise
        except Exception as error:
            where = _where(error)
            raise HookFailed(
                f"the {call.hook} hook raised {type(error).__name__}" + (f" at {where}" if where else ""),
                hook=call.hook,
                kind=type(error).__name__,
                where=where,
                detail="".join(traceback.format_exception(error)),
            ) from error
        check_model(call, before=before)
        checked = check_map(call, returned)
        seconds = time.monotonic() - begun
        return HookResult(checked.n_samples, checked.metrics, checked.should_stop, seconds)

    def end_survivor(self, work_dir: Path) -> bool:
        """A function dies with its process; of the hooks that are none, what an earlier process left."""
        return self._otherwise is not None and self._otherwise.end_survivor(work_dir)


def _arguments(function: HookFunction, call: HookCall) -> dict[str, object]:
    code = getattr(function, "__code__", None)
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount] if code else ()
    takes_all = code is None or bool(code.co_flags & 0x08)
    given = dict(call.required)
    given |= {name: value for name, value in call.optional.items() if takes_all or name in names}
    return {
        name: Path(value) if isinstance(value, str) and name.endswith(("_path", "_dir")) else value
        for name, value in given.items()
    }


def _where(error: Exception) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    return f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
