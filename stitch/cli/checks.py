"""What `doctor` looks at: one finding a line, each with what to do about it.

This file holds the values and their rendering; the checks themselves are in the modules `checks_...`, and
`checkup` runs them in order.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TextIO

from stitch.cli.saying import spoken
from stitch.errors import ConfigError, StitchError

KIND = "stitch.doctor/1"


@dataclass(frozen=True, slots=True)
class Check:
    """One finding.

    Attributes:
        name: what was looked at, such as "disk".
        state: "fail" is what keeps `run` from working.
        finding: one line, without secrets.
        todo: one line on what to do; "" when nothing is.
        exit_code: of a failure: the banded code of its kind.
    """

    name: str
    state: Literal["ok", "warn", "fail"]
    finding: str
    todo: str = ""
    exit_code: int = 0


def ok(name: str, finding: str) -> Check:
    """Nothing to do."""
    return Check(name, "ok", finding)


def warn(name: str, finding: str, *, todo: str) -> Check:
    """Works, but a person should look at it."""
    return Check(name, "warn", finding, todo)


def fail(name: str, error: StitchError) -> Check:
    """Keeps `run` from working, as this error says."""
    return Check(name, "fail", str(error), error.hint, error.exit_code)


def broken(name: str, finding: str, *, todo: str, kind: type[StitchError] = ConfigError) -> Check:
    """Keeps `run` from working; `kind` gives the exit code."""
    return Check(name, "fail", finding, todo, kind.exit_code)


def exit_code(checks: Sequence[Check]) -> int:
    """0 when nothing failed, else the highest code of the failures."""
    return max((check.exit_code for check in checks if check.state == "fail"), default=0)


def as_lines(checks: Sequence[Check], out: TextIO) -> str:
    """One line a check: state, name, finding, what to do. A terminal gets it wrapped to its width."""
    width = max((len(check.name) for check in checks), default=0)
    return "\n".join(_line(check, width, out=out) for check in checks)


def as_json(checks: Sequence[Check]) -> str:
    """The document `stitch.doctor/1`: `ok`, `exit_code` and `checks`, in the order of the lines."""
    document = {
        "kind": KIND,
        "ok": exit_code(checks) == 0,
        "exit_code": exit_code(checks),
        "checks": [
            {"name": check.name, "state": check.state, "finding": check.finding, "todo": check.todo}
            for check in checks
        ],
    }
    return json.dumps(document, indent=2)


def _line(check: Check, width: int, *, out: TextIO) -> str:
    state = "FAIL" if check.state == "fail" else check.state
    head = f"{state:<4}  {check.name:<{width}}  "
    todo = f" -> {check.todo}" if check.todo else ""
    whole = spoken(f"{head}{check.finding}{todo}", out, indent=len(head))
    if not todo or "\n" not in whole:
        return whole
    # What to do begins a line of its own, lest it be looked for in the middle of a paragraph.
    said = spoken(f"{head}{check.finding}", out, indent=len(head))
    return f"{said}\n{spoken(' ' * (len(head) - 1) + todo, out, indent=len(head) + 3)}"
