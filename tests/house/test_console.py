"""Hospital consoles run code page 1252 and worse: what is printed is ASCII."""

from __future__ import annotations

import ast
import io
import tokenize

import pytest

from tests.house.source import Module, modules

TEXT_TOKENS = {tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}


def _docstring_lines(module: Module) -> set[int]:
    nodes = (
        n for n in ast.walk(module.tree) if isinstance(n, ast.Expr) and isinstance(n.value, ast.Constant)
    )
    return {n.lineno for n in nodes}


@pytest.mark.parametrize("module", modules("stitch"), ids=lambda m: m.name)
def test_strings_are_ascii(module: Module) -> None:
    """In cli, docstrings too: they are the help text."""
    for_readers = set() if module.path.parts[1] == "cli" else _docstring_lines(module)
    tokens = tokenize.generate_tokens(io.StringIO(module.text).readline)
    texts = [t for t in tokens if t.type in TEXT_TOKENS and t.start[0] not in for_readers]
    assert [f"{module.name}:{t.start[0]} {t.string[:60]!r}" for t in texts if not t.string.isascii()] == []
