"""docs/failures.md is true: each class has the code it says, and each test is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from stitch import errors

ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in Path("docs/failures.md").read_text(encoding="utf-8").splitlines()
    if line.startswith("| ") and not line.startswith("| failure")
]


def test_there_are_rows_and_no_failure_is_named_twice() -> None:
    assert len(ROWS) > 8
    assert len({row[0] for row in ROWS}) == len(ROWS)


@pytest.mark.parametrize("row", ROWS, ids=[row[1].strip("`") for row in ROWS])
def test_a_row_is_one_class_with_its_code_and_one_test(row: list[str]) -> None:
    failure, name, code, response, shown = row
    error = getattr(errors, name.strip("`"))
    assert error.exit_code == int(code)
    assert failure
    assert response
    found = re.fullmatch(r"\[[\w.]+\]\(\.\./(?P<file>[\w/.]+)\) `(?P<test>test_\w+)`", shown)
    assert found is not None
    assert f"def {found['test']}(" in Path(found["file"]).read_text(encoding="utf-8")
