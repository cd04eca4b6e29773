"""The Windows half of the runner, as far as it runs here: the job object's calls and the child's start."""

from __future__ import annotations

import ctypes
import json
import subprocess
import sys
from typing import Any

import pytest

from stitch.hooks.process import LAUNCHER, encoded
from stitch.hooks.windows import ExtendedLimits, Job
from tests.unit.hooks.conftest import DEADLINE_S, Project


class Function:
    def __init__(self, name: str, calls: list[tuple[str, Any]], answer: int) -> None:
        self.name, self.calls, self.answer, self.restype = name, calls, answer, None

    def __call__(self, *arguments: Any) -> int:
        plain = [
            argument.value if isinstance(argument, ctypes.c_void_p) else argument for argument in arguments
        ]
        self.calls.append((self.name, plain))
        return self.answer


class Kernel:
    """Stands for kernel32: notes what it is asked, and refuses what it is told to refuse."""

    def __init__(self, refuse: str = "") -> None:
        self.calls: list[tuple[str, Any]] = []
        answers = {
            "CreateJobObjectW": 0xABCD,
            "SetInformationJobObject": 1,
            "AssignProcessToJobObject": 1,
            "TerminateJobObject": 1,
            "CloseHandle": 1,
        }
        for name, answer in answers.items():
            setattr(self, name, Function(name, self.calls, 0 if name == refuse else answer))


def test_the_job_dies_with_its_handle_and_holds_the_process() -> None:
    kernel = Kernel()
    job = Job(kernel)
    job.add(0x77)
    job.kill()
    job.close()
    job.close()
    names = [name for name, _ in kernel.calls]
    assert names == [
        "CreateJobObjectW",
        "SetInformationJobObject",
        "AssignProcessToJobObject",
        "TerminateJobObject",
        "CloseHandle",
    ]
    _, (handle, what, _, size) = kernel.calls[1]
    assert (handle, what, size) == (0xABCD, 9, ctypes.sizeof(ExtendedLimits))
    assert kernel.calls[2][1] == [0xABCD, 0x77]


@pytest.mark.skipif(ctypes.sizeof(ctypes.c_void_p) != 8, reason="the sizes of 64-bit Windows")
def test_the_limits_are_laid_out_as_winnt_h_has_them() -> None:
    assert ctypes.sizeof(ExtendedLimits) == 144
    assert ExtendedLimits.IoInfo.offset == 64
    assert ExtendedLimits.ProcessMemoryLimit.offset == 112


@pytest.mark.parametrize("refuse", ["CreateJobObjectW", "SetInformationJobObject"])
def test_a_job_that_windows_refuses_is_an_error(refuse: str) -> None:
    with pytest.raises(OSError, match="refused a job object"):
        Job(Kernel(refuse))


def test_a_process_that_windows_keeps_out_of_the_job_is_an_error() -> None:
    with pytest.raises(OSError, match="refused to put the hook"):
        Job(Kernel("AssignProcessToJobObject")).add(1)


def test_without_a_guard_the_launcher_runs_the_hook_itself(project: Project) -> None:
    project.train("print(repr(sys.stdin.read()))\nreturn {'n_samples': 3, 'argc': len(sys.argv)}")
    project.work_dir.mkdir()
    request = {
        "mode": "call",
        "root": str(project.root),
        "file": str(project.root / "code" / "train.py"),
        "function": "train",
        "required": dict(project.call().required),
        "optional": {},
        "result_path": str(project.work_dir / "result.json"),
        "fault_path": str(project.work_dir / "fault.txt"),
    }
    done = subprocess.run(
        [sys.executable, str(LAUNCHER), "-"],
        input=encoded(request),
        capture_output=True,
        cwd=project.root,
        timeout=DEADLINE_S,
        check=False,
    )
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, b"''", b"")
    result = json.loads((project.work_dir / "result.json").read_text(encoding="utf-8"))
    assert result == {"returned": {"n_samples": 3, "argc": 1}, "odd": {}}


def test_a_launcher_whose_parent_dies_before_it_asks_runs_nothing(project: Project) -> None:
    done = subprocess.run(
        [sys.executable, str(LAUNCHER), "-"],
        input=b"00000",
        capture_output=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (1, b"", b"")
