"""A file or a function that grows too long hides a second idea; a vague name hides the first."""

from __future__ import annotations

import ast

from tests.house.source import Function, Module, body_lines, modules

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
    """Except commands, the published suite's tests, and `run_lead`, whose signature is documented."""
    rooms = [m for m in modules("stitch") if m.path.parts[1] != "cli"]
    found = [
        f"{m.name}:{f.lineno} {f.name}"
        for m in rooms
        for f in m.functions()
        if _takes_many(f) and f not in _overrides(m) and f.name != "run_lead"
    ]
    assert not found, "\n".join(found)


def _takes_many(function: Function) -> bool:
    names = [a.arg for a in (*function.args.posonlyargs, *function.args.args)]
    own = [name for name in names if name not in {"self", "cls"}]
    private = function.name.startswith(("_", "test_")) and function.name != "__init__"
    return not private and len(own) > MOST_POSITIONAL


def _overrides(module: Module) -> set[ast.AST]:
    """Methods of classes with a foreign base, except constructors: their signature is somebody else's."""
    imports = [n for n in ast.walk(module.tree) if isinstance(n, ast.ImportFrom | ast.Import)]
    foreign = {
        (alias.asname or alias.name).partition(".")[0]
        for node in imports
        if not (isinstance(node, ast.ImportFrom) and (node.module or "").startswith(("stitch", "typing")))
        for alias in node.names
    }
    classes = [n for n in ast.walk(module.tree) if isinstance(n, ast.ClassDef)]
    derived = [c for c in classes if foreign & {ast.unparse(b).partition(".")[0] for b in c.bases}]
    return {f for c in derived for f in c.body if isinstance(f, Function) and f.name != "__init__"}
