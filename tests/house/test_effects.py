"""Where the code may wait, and how it may open files: rules that hold on every platform."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.house.source import Module, called_name, modules

SLEEPER = "stitch/loops/drive.py"
MODE_OF_OPEN = 1


def test_only_the_drive_loop_sleeps() -> None:
    found = [w for m in modules("stitch") if m.name != SLEEPER for w in _sleeps(m, inside_loops=True)]
    assert not found, "\n".join(found)


def test_tests_sleep_only_between_two_looks_at_a_condition() -> None:
    """A sleep outside a loop waits for time to pass: fake the clock, or poll with a deadline."""
    found = [w for m in modules("tests") for w in _sleeps(m, inside_loops=False)]
    assert not found, "\n".join(found)


def test_text_is_opened_with_its_encoding_named() -> None:
    """Windows would pick a code page."""
    everywhere = modules("stitch", "templates", "examples", "benchmarks", "tests")
    found = [where for m in everywhere for where in _without_encoding(m)]
    assert not found, "\n".join(found)


def test_no_stitch_module_changes_a_global() -> None:
    nodes = ((m, node) for m in modules("stitch") for node in ast.walk(m.tree))
    found = [f"{m.name}:{n.lineno}" for m, n in nodes if isinstance(n, ast.Global)]
    assert not found, "\n".join(found)


def _sleeps(module: Module, *, inside_loops: bool) -> Iterator[str]:
    """Calls of anything named sleep, and `from time import sleep`, with or without those in loops."""
    polling: set[ast.AST] = set()
    for node in ast.walk(module.tree):
        if isinstance(node, ast.While | ast.For) and not inside_loops:
            polling.update(ast.walk(node))
        if isinstance(node, ast.Call) and called_name(node) == "sleep" and node not in polling:
            yield f"{module.name}:{node.lineno}"
        if isinstance(node, ast.ImportFrom) and node.module == "time":
            yield from (f"{module.name}:{node.lineno}" for a in node.names if a.name == "sleep")


def _without_encoding(module: Module) -> Iterator[str]:
    for node in ast.walk(module.tree):
        if not isinstance(node, ast.Call) or any(k.arg in {"encoding", None} for k in node.keywords):
            continue
        if _opens_text(node):
            yield f"{module.name}:{node.lineno}"


def _opens_text(call: ast.Call) -> bool:
    """Whether this opens text and names no encoding: `open`, `path.open`, `os.fdopen`, `read_text`, …"""
    match call.func:
        case ast.Attribute(attr="read_text"):
            return not call.args
        case ast.Attribute(attr="write_text"):
            return len(call.args) == 1
        case ast.Attribute(attr="open", value=ast.Name(id="os" | "webbrowser" | "tarfile" | "zipfile")):
            return False
        case ast.Name(id="open") | ast.Attribute(attr="fdopen"):
            modes = call.args[MODE_OF_OPEN:]
        case ast.Attribute(attr="open"):
            modes = list(call.args)
        case _:
            return False
    modes += [k.value for k in call.keywords if k.arg == "mode"]
    texts = [m for m in modes[:1] if isinstance(m, ast.Constant) and "b" not in str(m.value)]
    return not modes or bool(texts)
