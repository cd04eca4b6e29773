"""The record of a running hook, and the end of one that outlived the process that started it.

A guard dies with nothing left below it. This is for the day when the guard was killed too, or the
platform could not find a process that had cut itself loose (law 3).
"""

from __future__ import annotations

import json
from pathlib import Path

import psutil

from stitch.hooks.environment import RUN_MARK

RECORD_NAME = "process.json"
_SAME_S = 0.02  # psutil derives a creation time from clock ticks of 10 ms
_KILL_WAIT_S = 10.0


def record(work_dir: Path, *, pid: int, mark: str) -> None:
    """Write down which process a hook run is, before any of the hook's code runs."""
    try:
        created = psutil.Process(pid).create_time()
    except psutil.Error:
        return  # it ended already, before it was told what to run
    text = json.dumps({"kind": "stitch.hook-process/1", "pid": pid, "created": created, "mark": mark})
    (work_dir / RECORD_NAME).write_text(text, encoding="utf-8")


def forget(work_dir: Path) -> None:
    """Take the record away: nothing of that run is left."""
    (work_dir / RECORD_NAME).unlink(missing_ok=True)


def end_survivor(work_dir: Path) -> bool:
    """End whatever is left of the hook run that was recorded in `work_dir`.

    Call it with the lane's lock held: the record of a run that is going on looks just the same. A
    process is killed only if it has the recorded id *and* creation time, or carries the run's mark
    in its environment; or if it descends from one that does. A recycled id is never hit.

    Returns:
        True if a process was ended; the record is gone in either case.
    """
    try:
        recorded = json.loads((work_dir / RECORD_NAME).read_text(encoding="utf-8"))
        pid, created, mark = int(recorded["pid"]), float(recorded["created"]), str(recorded["mark"])
    except (OSError, ValueError, KeyError, TypeError):
        forget(work_dir)  # half a record: it was cut while written, before the hook was let go
        return False
    ended = end_run(mark, pid=pid, created=created)
    forget(work_dir)
    return ended


def end_run(mark: str, *, pid: int = 0, created: float = 0.0) -> bool:
    """Kill every process of one run, and wait until they are gone. True if there was any."""
    found: dict[int, psutil.Process] = {}
    for process in psutil.process_iter():
        if _belongs(process, mark=mark, pid=pid, created=created):
            found[process.pid] = process
            try:
                found.update({child.pid: child for child in process.children(recursive=True)})
            except psutil.Error:
                continue
    for process in found.values():
        try:
            process.kill()
        except psutil.Error:
            continue
    psutil.wait_procs(list(found.values()), timeout=_KILL_WAIT_S)
    return bool(found)


def _belongs(process: psutil.Process, *, mark: str, pid: int, created: float) -> bool:
    try:
        if process.status() == psutil.STATUS_ZOMBIE:
            return False
        if process.pid == pid and abs(process.create_time() - created) < _SAME_S:
            return True
        return process.environ().get(RUN_MARK) == mark
    except (psutil.Error, OSError):
        return False  # ended meanwhile, or another user's: not ours
