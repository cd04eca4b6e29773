"""The process that stays between STITCH and a hook, so that no hook outlives its parent (law 3).

The launcher forks: the child becomes the hook, in a session of its own; the parent becomes the
guard, which holds a pipe from STITCH. When STITCH dies, however it dies, that pipe reaches its end
and the guard kills everything the hook started. On Linux the guard is a *subreaper*: a process that
cut itself loose (double fork, `setsid`) becomes the guard's child, so "no child is left" proves
that nothing is left. Elsewhere it kills the hook's process group and whatever `ps` shows below it.

In (stdin):   ten digits, that many bytes of JSON: the request. Then `stop SECONDS` lines.
              End of file means: kill everything now.
Out (report): `STATUS HOW LEFT`: STATUS as from `waitpid`; HOW the hook ended, one of `itself`,
              `stopped`, `killed`; LEFT, how many processes it left behind, all ended by now.

Standard library only, and little of it: every hook pays for these imports.
"""

from __future__ import annotations

import json
import os
import sys
import time

TYPE_CHECKING = False  # typing itself is not worth its import time here
if TYPE_CHECKING:
    from typing import Any

LINGER_S = 1.0
"""How long what a hook left behind may take to end by itself (multiprocessing's trackers do)."""

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_LINUX = sys.platform == "linux"
_SIGKILL = 9


def read_request(fd: int) -> dict[str, Any]:
    """The request at the head of `fd`, and not a byte of the commands behind it."""
    request: dict[str, Any] = json.loads(_read(fd, int(_read(fd, 10))))
    return request


def _read(fd: int, count: int) -> bytes:
    parts = []
    while count:
        part = os.read(fd, count)
        if not part:
            os._exit(1)  # the parent died before it had asked for anything
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def guard(request: dict[str, Any], report_fd: int) -> None:
    """Fork. Returns in the hook's process alone; the guard's process ends in here. POSIX.

    For a command the hook's process becomes that command and this returns nowhere.
    """
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    guard_pid = os.getpid()
    hook = os.fork()
    if hook == 0:
        os.close(report_fd)
        _become_hook(guard_pid)
        if request["mode"] == "command":
            _execute(request)
        return
    watch = _Watch(hook)
    report = watch.until_ended()
    try:
        os.write(report_fd, report.encode())
    finally:
        os._exit(0)  # not a second run of the interpreter's shutdown that the hook also runs


def detach_stdin() -> None:
    """Let the hook read an empty stdin, not STITCH's commands."""
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)


def _prctl(option: int, value: int) -> None:
    if _LINUX:
        import ctypes

        ctypes.CDLL(None).prctl(option, value)


def _become_hook(guard_pid: int) -> None:
    os.setsid()  # Ctrl-C in the terminal is for STITCH alone, which ends the hook in its own order
    _prctl(_PR_SET_PDEATHSIG, _SIGKILL)
    if os.getppid() != guard_pid:
        os._exit(1)  # the guard died before the line above could notice
    detach_stdin()
    try:  # when memory runs out, the kernel shall take the hook, not the guard and not STITCH
        with open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
            file.write("500")
    except OSError:
        pass


def _execute(request: dict[str, Any]) -> None:
    import signal

    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores these; a command expects not
        signal.signal(number, signal.SIG_DFL)
    program, *arguments = request["argv"]
    try:
        os.execv(program, [program, *arguments])
    except OSError as error:
        with open(request["result_path"], "w", encoding="utf-8") as file:
            json.dump({"refused": f"{program} cannot be run: {error.strerror}"}, file)
        os._exit(127)


class _Watch:
    """One hook's process and all below it, seen from the guard."""

    def __init__(self, hook: int) -> None:
        import signal

        self._hook = hook
        self._status: int | None = None
        self._gone = False  # STITCH is; or somebody asked this process to end
        self._commands = b""
        self._wake, writer = os.pipe()
        os.set_blocking(writer, False)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(number, self._asked_to_end)

    def _asked_to_end(self, *_: object) -> None:
        self._gone = True

    def until_ended(self) -> str:
        """Wait for the hook, obey commands, end what is left; the report."""
        how, deadline = "itself", None
        while not self._reap() and self._status is None:
            if self._gone or (deadline is not None and time.monotonic() >= deadline):
                how = "killed"
                break
            grace = self._next_stop(deadline)
            if grace is not None:
                how, deadline = "stopped", time.monotonic() + grace
                self._signal_group(15)
        left = self._end_rest(LINGER_S if how == "itself" else 0.0)
        return f"{self._status} {how} {left}\n"

    def _reap(self) -> bool:
        """Collect whoever ended. True when no child is left."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return True
            if pid == self._hook:
                self._status = status
            if pid == 0:
                return False

    def _next_stop(self, deadline: float | None) -> float | None:
        """Wait for a child's end, a signal, the deadline, or a command: the seconds of a `stop`."""
        import select

        timeout = None if deadline is None else max(0.0, deadline - time.monotonic())
        inputs = [self._wake] if self._gone else [self._wake, 0]
        ready, _, _ = select.select(inputs, [], [], timeout)
        if self._wake in ready:
            os.read(self._wake, 512)
        if 0 not in ready:
            return None
        block = os.read(0, 512)
        self._gone = not block
        *lines, self._commands = (self._commands + block).split(b"\n")
        return float(lines[-1].split()[1]) if lines else None

    def _signal_group(self, number: int) -> None:
        try:
            os.killpg(self._hook, number)
        except (ProcessLookupError, PermissionError):
            pass

    def _end_rest(self, linger_s: float) -> int:
        """End everything below; how many processes there were, besides the hook."""
        until, ended = time.monotonic() + linger_s, set()
        while self._rest_lives():
            if time.monotonic() < until and not self._gone:
                self._next_stop(until if _LINUX else min(until, time.monotonic() + 0.05))
                continue
            victims = _below(os.getpid())
            ended |= victims
            if self._status is None or not _LINUX:
                self._signal_group(_SIGKILL)
            for pid in victims:
                try:
                    os.kill(pid, _SIGKILL)
                except ProcessLookupError:
                    pass
            # Their children come to this process as they die; SIGCHLD wakes it.
            self._next_stop(time.monotonic() + 0.05)
        return len(ended - {self._hook})

    def _rest_lives(self) -> bool:
        if not self._reap():
            return True
        if _LINUX:
            return False
        try:
            os.killpg(self._hook, 0)
        except (ProcessLookupError, PermissionError):
            return False
        return True


def _below(root: int) -> set[int]:
    """The ids of all living descendants of `root`."""
    parents = _parents_from_proc() if _LINUX else _parents_from_ps()
    below: set[int] = set()
    found = {root}
    while found:
        found = {pid for pid, parent in parents.items() if parent in found} - below
        below |= found
    return below


def _parents_from_proc() -> dict[int, int]:
    parents = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    parents[int(name)] = int(file.read().rpartition(b")")[2].split()[1])
            except OSError:
                continue  # it ended while we looked
    return parents


def _parents_from_ps() -> dict[int, int]:
    import subprocess

    listing = subprocess.run(["/bin/ps", "-A", "-o", "pid=,ppid="], capture_output=True, check=False).stdout
    pairs = (line.split() for line in listing.splitlines())
    return {int(pid): int(parent) for pid, parent in pairs}
