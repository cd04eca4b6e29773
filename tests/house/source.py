"""The project's own text, as the house tests read it: tracked files and parsed modules."""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Module:
    """One Python file: its path from the root, its text and its tree."""

    path: Path
    text: str
    tree: ast.Module

    @property
    def name(self) -> str:
        """The path with forward slashes, as shown in a failure."""
        return self.path.as_posix()

    def functions(self) -> Iterator[Function]:
        """Every function and method, nested ones too."""
        for node in ast.walk(self.tree):
            if isinstance(node, Function):
                yield node


@cache
def project_files() -> tuple[Path, ...]:
    """Every file that is or may become part of the repository, relative to the root."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listing = subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout.decode("utf-8")
    names = sorted({name for name in listing.split("\0") if name})
    return tuple(Path(name) for name in names if (ROOT / name).is_file())


@cache
def modules(*folders: str) -> tuple[Module, ...]:
    """The Python files below these top folders, parsed."""
    return tuple(
        Module(path, text := (ROOT / path).read_text(encoding="utf-8"), ast.parse(text, filename=str(path)))
        for path in project_files()
        if path.suffix == ".py" and path.parts[0] in folders
    )


def body_lines(function: Function) -> int:
    """Lines of a function from `def` to its end, without its docstring."""
    lines = (function.end_lineno or function.lineno) - function.lineno + 1
    if ast.get_docstring(function) is not None:
        docstring = function.body[0]
        lines -= (docstring.end_lineno or docstring.lineno) - docstring.lineno + 1
    return lines


def called_name(call: ast.Call) -> str:
    """`f` for `f()` and for `x.f()`; "" for anything else that is called."""
    match call.func:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case _:
            return ""
