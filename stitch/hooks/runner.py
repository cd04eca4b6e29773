"""Runs one hook in a child of its own, to its end or ours, and checks what it gave back (law 9)."""

from __future__ import annotations

import os
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from stitch.errors import ConfigError, HookFailed
from stitch.files import disk, require_room, scratch
from stitch.hooks import survivors
from stitch.hooks.call import HookCall, HookName, HookResult, HookSpec, HookStopped
from stitch.hooks.environment import child_environment, command_variables
from stitch.hooks.failures import failure, read_result, timed_out
from stitch.hooks.log import HookLog
from stitch.hooks.modules import find_module
from stitch.hooks.output import check_model, check_returned, read_metrics_file, stamp
from stitch.hooks.process import Ended, HookProcess, Start
from stitch.hooks.spec import (
    CommandHook,
    ModuleHook,
    find_command,
    hook_name,
    missing_script,
    module_file,
    parse_spec,
)
from stitch.hooks.starting import start_process

_TICK_S = 0.1  # how late a stop or a line of output may be seen; the hook's end is seen at once

# The arguments of docs/hooks.md, for a check of the signature without a run.
REQUIRED: dict[HookName, tuple[str, ...]] = {
    "train": ("global_path", "out_path", "data_dir"),
    "aggregate": ("site_dir", "out_path"),
    "evaluate": ("global_path", "data_dir"),
    "evaluate_central": ("global_path", "data_dir"),
    "diagnose": ("candidate_path", "global_path"),
    "leaves": ("data_dir",),
    "pre_release": ("model_path", "global_path", "out_path"),
    "pre_aggregate": ("model_path", "global_path", "out_path"),
    "release": ("model_path", "privacy"),
    "expand": ("model_path", "global_path", "out_path"),
    "admit": ("model_path", "base_path", "reason_path"),
}
OPTIONAL = (
    *("pass_id", "config", "round_seed", "data_dir", "state_dir", "global_path", "bases_dir"),
    *("outer_path", "outer_out_path", "config_out_path", "site_id"),
    *("client_class", "strategy_class", "strategy_options", "strategy_defaults", "train_config"),
    "evaluation_results",
)
ALSO: dict[HookName, tuple[str, ...]] = {"admit": ("n_samples",), "diagnose": ("site_dir",)}


@dataclass(frozen=True, slots=True)
class _Files:
    """Where one run's small files lie in its scratch folder."""

    result: Path
    fault: Path
    metrics: Path


class HookRunner:
    """Runs hooks, each in a fresh child process without the store's credentials.

    One runner serves any number of hooks, also at once from several threads.

    Args:
        environ: what the child's environment is made from; None for this process's own.
        grace_s: seconds between asking a hook to end and killing it.
    """

    def __init__(self, *, environ: Mapping[str, str] | None = None, grace_s: float = 10.0) -> None:
        self._environ = environ
        self._grace_s = grace_s

    def run(
        self,
        call: HookCall,
        *,
        stop: threading.Event | None = None,
        on_line: Callable[[str], None] | None = None,
    ) -> HookResult:
        """Run one hook and check what it gave back.

        When this returns or raises, nothing of the hook is running any more.

        Args:
            call: what to run.
            stop: when it is set, the hook is ended.
            on_line: called with each line that the hook prints, from this thread; of a flood it
                gets a part. The whole is in `call.log_path`.

        Raises:
            HookFailed: it could not be called, raised, exited, or was killed.
            HookTimeout: it ran longer than `call.timeout_s`.
            HookOutput: its model file or its metrics cannot be used.
            HookStopped: `stop` was set.
            ConfigError: the spec cannot be read.
            DiskError: the log cannot be written.
        """
        if stop is not None and stop.is_set():
            raise HookStopped(call.hook)
        call.work_dir.mkdir(parents=True, exist_ok=True)
        before, begun = stamp(call.out_path), time.monotonic()
        mode = "leaves" if call.hook == "leaves" else "call"
        result = self._run_child(call, mode=mode, stop=stop, on_line=on_line)
        seconds = time.monotonic() - begun
        if isinstance(call.spec, str):
            returned, odd = _maps(result)
        else:
            returned, odd = read_metrics_file(call, _files(call).metrics), {}
        check_model(call, before=before)
        checked = check_returned(call, returned, odd=odd)
        return HookResult(checked.n_samples, checked.metrics, checked.should_stop, seconds)

    def end_survivor(self, work_dir: Path) -> bool:
        """End what is left of a hook run recorded in `work_dir`: see `survivors.end_survivor`.

        Returns:
            True if a process was ended.
        """
        return survivors.end_survivor(work_dir)

    def check(self, call: HookCall) -> None:
        """Import a Python hook in a child and look at its signature, without calling it.

        Raises:
            HookFailed, HookTimeout: as `run`.
        """
        self._run_child(call, mode="check", stop=None, on_line=None)

    def _run_child(
        self,
        call: HookCall,
        *,
        mode: str,
        stop: threading.Event | None,
        on_line: Callable[[str], None] | None,
    ) -> dict[str, object]:
        files, mark = _files(call), uuid.uuid4().hex
        for path in (files.result, files.fault, files.metrics):
            path.unlink(missing_ok=True)
        log = HookLog(call, on_line=on_line)
        try:
            start = self._start(call, mode=mode, log=log, mark=mark)
            ended, why = self._to_its_end(call, start, stop=stop, log=log)
            fault = files.fault.read_text("utf-8", "replace") if files.fault.exists() else ""
            log.finish(fault)
            tail = log.tail()
        finally:
            log.close()
        if why == "stop":
            raise HookStopped(call.hook)
        if why == "timeout":
            raise timed_out(call, detail=tail)
        result = read_result(files.result)
        if error := failure(call, ended, result=result, fault=fault, log_tail=tail):
            require_room(call.work_dir, cause=error)
            raise error
        return result

    def _start(self, call: HookCall, *, mode: str, log: HookLog, mark: str) -> Start:
        environ = child_environment(os.environ if self._environ is None else self._environ, mark=mark)
        files, hook = _files(call), parse_spec(call.root, call.spec)
        request: dict[str, object] = {
            "mode": mode,
            "root": str(call.root.absolute()),
            "result_path": str(files.result.absolute()),
            "fault_path": str(files.fault.absolute()),
        }
        if isinstance(hook, CommandHook):
            environ |= command_variables(call, metrics_path=files.metrics.absolute())
            request |= {"mode": "command", "argv": [_program(call, hook, environ), *hook.argv[1:]]}
        else:
            if isinstance(hook, ModuleHook):
                found = find_module(call.root, hook.module)
                request |= {"module": hook.module, "file": str(found or "")}
            else:
                request["file"] = str(hook.file)
            request |= {
                "function": hook.function,
                "leaves_path": str(call.out_path),
                "required": dict(call.required),
                "optional": dict(call.optional),
            }
        return Start(request, environ, call.root, log.file, mark)

    def _to_its_end(
        self, call: HookCall, start: Start, *, stop: threading.Event | None, log: HookLog
    ) -> tuple[Ended, str]:
        """Start it, wait for its end, or bring it about: how it ended, and why if by us."""
        try:
            process = start_process(start)
        except OSError as error:
            raise HookFailed(
                f"no process can be started for the {call.hook} hook: {error.strerror or error}",
                hint="See whether the machine is out of memory or processes, and whether root exists.",
                hook=call.hook,
                kind=type(error).__name__,
            ) from None
        try:
            with disk(call.work_dir):
                survivors.record(call.work_dir, pid=process.pid, mark=start.mark)
            process.release()
            why = self._until(process, call.timeout_s, stop=stop, log=log)
            ended = process.end(self._grace_s) if isinstance(why, str) else why
        except KeyboardInterrupt:
            process.end(self._grace_s)  # a second Ctrl-C kills at once: `close` does
            raise
        finally:
            process.close()
            survivors.forget(call.work_dir)
        return ended, why if isinstance(why, str) else ""

    def _until(
        self, process: HookProcess, timeout_s: float | None, *, stop: threading.Event | None, log: HookLog
    ) -> Ended | str:
        """Wait for the hook's end, or for a reason to bring it about: "stop" or "timeout"."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            left = _TICK_S if deadline is None else max(0.0, min(_TICK_S, deadline - time.monotonic()))
            if ended := process.wait(left):
                return ended
            log.follow()
            if stop is not None and stop.is_set():
                return "stop"
            if deadline is not None and time.monotonic() >= deadline:
                return "timeout"


def _files(call: HookCall) -> _Files:
    folder = call.work_dir
    return _Files(folder / "result.json", folder / "fault.txt", folder / "metrics.json")


def _maps(result: Mapping[str, object]) -> tuple[dict[str, object], dict[str, str]]:
    returned, odd = result.get("returned"), result.get("odd")
    return returned if isinstance(returned, dict) else {}, odd if isinstance(odd, dict) else {}


def _program(call: HookCall, hook: CommandHook, environ: Mapping[str, str]) -> str:
    program = find_command(hook.argv, root=call.root, environ=environ)
    if program is None:
        raise HookFailed(
            f"the {call.hook} hook's program {hook.argv[0]} was not found",
            hint="Install it, or put its folder on PATH and open a new terminal.",
            hook=call.hook,
            kind="FileNotFoundError",
        )
    return program


def check_spec(root: Path, spec: HookSpec, *, hook: HookName | None = None, timeout_s: float = 60.0) -> None:
    """Check that a hook could be run: for `doctor` and `init`.

    A Python hook is imported in a child (its function is not called), and with `hook` given its
    signature is checked too. Of a command the program and its script are looked up.

    Raises:
        ConfigError: the spec cannot be read, or what it names is not there.
        HookError: the import raised, took too long, or the signature does not fit.
    """
    check_files(root, spec)
    if isinstance(parse_spec(root, spec), CommandHook):
        return
    with scratch() as folder:
        call = HookCall(
            hook=hook or "train",
            spec=spec,
            root=root,
            required=dict.fromkeys(REQUIRED[hook]) if hook else {},
            optional=dict.fromkeys((*OPTIONAL, *(ALSO.get(hook, ()) if hook else ()))),
            out_path=None,
            work_dir=folder,
            log_path=folder / "check.log",
            timeout_s=timeout_s,
        )
        HookRunner(grace_s=1.0).check(call)


def check_files(root: Path, spec: HookSpec) -> None:
    """Check that what a hook names is there, without running any of it: before a run begins.

    Raises:
        ConfigError: the spec cannot be read, or its file, module, program or script is not there.
    """
    found = parse_spec(root, spec)
    if isinstance(found, CommandHook):
        _check_command(root, found)
    elif isinstance(found, ModuleHook):
        module_file(root, found)
    elif not found.file.is_file():
        raise ConfigError(
            f'the hook "{hook_name(spec)}" names a file that does not exist',
            hint="Paths in [hooks] are relative to the folder of stitch.toml.",
        )


def _check_command(root: Path, hook: CommandHook) -> None:
    if find_command(hook.argv, root=root, environ=os.environ) is None:
        raise ConfigError(
            f"the hook's program {hook.argv[0]} was not found",
            hint="Install it, or put its folder on PATH and open a new terminal.",
        )
    if script := missing_script(hook, root):
        raise ConfigError(
            f"the hook's script {script} does not exist",
            hint="Paths in [hooks] are relative to the folder of stitch.toml.",
        )
