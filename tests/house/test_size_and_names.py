"""A file or a function that grows too long hides a second idea; a vague name hides the first."""

from __future__ import annotations

from tests.house.source import Function, body_lines, modules

CODE = ("stitch", "templates", "examples", "benchmarks", "tests")
MOST_LINES_IN_A_FILE = 350
MOST_LINES_IN_A_FUNCTION = 45
MOST_POSITIONAL = 2
VAGUE = {"util", "utils", "helper", "helpers", "misc", "common"}


def test_no_python_file_is_longer_than_350_lines() -> None:
    lengths = {m.name: m.text.count("\n") for m in modules(*CODE)}
    found = [f"{name} {n}" for name, n in lengths.items() if n > MOST_LINES_IN_A_FILE]
    assert not found, "\n".join(found)


def test_no_function_is_longer_than_45_lines_without_its_docstring() -> None:
    lengths = {f"{m.name}:{f.lineno} {f.name}": body_lines(f) for m in modules(*CODE) for f in m.functions()}
    found = [f"{where} {n}" for where, n in lengths.items() if n > MOST_LINES_IN_A_FUNCTION]
    assert not found, "\n".join(found)


def test_no_module_is_named_after_what_it_is_not() -> None:
    found = [m.name for m in modules("stitch", "tests") if VAGUE & {m.path.stem, *m.path.parts[:-1]}]
    assert not found, "\n".join(found)


def test_public_functions_take_at_most_two_positional_arguments() -> None:
    """Except commands, whose arguments the command line names, and the published suite's tests."""
    rooms = [m for m in modules("stitch") if m.path.parts[1] != "cli"]
    found = [f"{m.name}:{f.lineno} {f.name}" for m in rooms for f in m.functions() if _takes_many(f)]
    assert not found, "\n".join(found)


def _takes_many(function: Function) -> bool:
    names = [a.arg for a in (*function.args.posonlyargs, *function.args.args)]
    own = [name for name in names if name not in {"self", "cls"}]
    private = function.name.startswith(("_", "test_")) and function.name != "__init__"
    return not private and len(own) > MOST_POSITIONAL
