"""Every error a user can meet has an exit code in its band and says what to do."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from stitch import errors
from tests.house.source import modules

BANDS: dict[type[errors.StitchError], range] = {
    errors.ConfigError: range(2, 3),
    errors.HookError: range(10, 20),
    errors.StoreError: range(20, 30),
    errors.ProtocolError: range(30, 40),
    errors.PrivacyError: range(30, 40),
    errors.RoundError: range(40, 50),
}


def _tree(root: type[errors.StitchError]) -> Iterator[type[errors.StitchError]]:
    for child in root.__subclasses__():
        yield child
        yield from _tree(child)


ERRORS = sorted(
    (c for c in _tree(errors.StitchError) if c.__module__ == errors.__name__), key=lambda c: c.exit_code
)


@pytest.mark.parametrize("error", ERRORS, ids=lambda e: e.__name__)
def test_exit_code_lies_in_the_band_of_its_family(error: type[errors.StitchError]) -> None:
    families = [family for family in BANDS if issubclass(error, family)]
    assert len(families) == 1
    assert error.exit_code in BANDS[families[0]]


@pytest.mark.parametrize("error", ERRORS, ids=lambda e: e.__name__)
def test_hint_says_in_one_ascii_line_what_a_person_does(error: type[errors.StitchError]) -> None:
    hint = error("cause").hint
    assert hint != errors.StitchError.default_hint, "that hint says: a defect of ours"
    assert hint.isascii()
    assert "\n" not in hint
    assert hint.endswith((".", "!"))


def test_no_two_errors_share_an_exit_code() -> None:
    codes = [e.exit_code for e in ERRORS]
    assert sorted(set(codes)) == codes


def test_errors_are_defined_in_one_file() -> None:
    names = {"StitchError", *(e.__name__ for e in ERRORS)}
    assert [
        f"{m.name} {node.name}"
        for m in modules("stitch")
        if m.name != "stitch/errors.py"
        for node in ast.walk(m.tree)
        if isinstance(node, ast.ClassDef) and names & {ast.unparse(base) for base in node.bases}
    ] == []
