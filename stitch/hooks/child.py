"""Runs one Python hook inside its own process: load its code, call the function, write the result.

The result is one JSON file, one of: `{"returned": {…}, "odd": {key: type}}`, `{"error": {…}}` for
what the hook raised, `{"exit": {…}}` for a `sys.exit`, `{"refused": "…"}` when the hook could not
be called at all. What is in it is checked by the parent (`output`), not here.

Standard library only, and little of it: every hook pays for these imports.
"""

from __future__ import annotations

import faulthandler
import importlib
import importlib.machinery
import importlib.util
import json
import sys
from collections.abc import Mapping
from pathlib import Path

TYPE_CHECKING = False  # typing itself is not worth its import time here
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType, ModuleType
    from typing import Any

_VAR_KEYWORDS = 0x08  # inspect.CO_VARKEYWORDS, without importing inspect
_MOST_TEXT = 20_000  # characters of a traceback that are kept beside the log
_MOST_SAID = 300  # characters of a message on the console
_FOREIGN = ("site-packages", "dist-packages", ".venv", "venv")


class _RefusedError(Exception):
    """The hook cannot be called as it is written; the message says why, for the user."""


def main(request: dict[str, Any]) -> int:
    """Run the request. Returns the exit code: 0 when the result is the hook's own."""
    result_path, fault_path = Path(str(request["result_path"])), str(request["fault_path"])
    root, file = Path(str(request["root"])), Path(str(request["file"]))
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # no test double replaced it yet
    # Open to the end: it is written to while the interpreter crashes.
    faulthandler.enable(open(fault_path, "w", encoding="utf-8"))  # noqa: SIM115  so no `with` closes it
    sys.argv[:] = [str(file)]
    try:
        result, code = _run(request, root=root, file=file), 0
    except _RefusedError as refused:
        result, code = {"refused": str(refused)}, 1
    except SystemExit as leaving:
        code = _exit_code(leaving)
        result = {"exit": {"code": code, "where": _where(leaving, root, file.parent)}}
    except BaseException as error:  # noqa: BLE001 - whatever a stranger raises is reported by name
        result, code = {"error": _described(error, root, file.parent)}, 1
    result_path.write_text(json.dumps(result), encoding="utf-8")
    return code


def _run(request: dict[str, Any], *, root: Path, file: Path) -> dict[str, object]:
    name = str(request.get("module", ""))
    module = _import(name, root, file) if name else _load(root, file)
    function = _find(module, str(request["function"]), name or file.name)
    only_look = request["mode"] == "check"
    if only_look and not request["required"]:
        return {"returned": {}}
    arguments = _arguments(function, request["required"], request["optional"])
    if only_look:
        return {"returned": {}}
    returned = function(**{name: _as_given(name, value, root) for name, value in arguments.items()})
    if request["mode"] == "leaves":
        returned = {"n_samples": write_leaves(returned, Path(str(request["leaves_path"])))}
    if not isinstance(returned, Mapping):
        return {"returned": None, "type": type(returned).__name__}
    values, odd = plain(returned)
    return {"returned": values, "odd": odd}


def _import(name: str, root: Path, file: Path) -> ModuleType:
    """Import an installed module, or one of the project, by its name."""
    if not file.is_file():
        raise _RefusedError(f"the hook's module {name} is not installed")
    sys.path.insert(0, str(root))
    return importlib.import_module(name)


def _load(root: Path, file: Path) -> ModuleType:
    """Import the hook's file under a name by which workers and pickles find it again."""
    if not file.is_file():
        raise _RefusedError(f"the hook's file {_shown(file, root)} does not exist")
    folder, name = file.parent, file.stem
    while (folder / "__init__.py").is_file():  # a module of a package keeps its relative imports
        name, folder = f"{folder.name}.{name}", folder.parent
    sys.path[:0] = [str(path) for path in dict.fromkeys((file.parent, folder, root))]
    if folder != file.parent:
        return importlib.import_module(name)
    for there in (sys.modules.get(name), sys.modules.get(f"hook_{name}")):
        if there is not None and getattr(there, "__file__", None) == str(file):
            return there  # a client and a strategy in one file are of one module
    if "." in name or name in sys.modules:
        name = "hook_" + name.replace(".", "_")
    spec = importlib.util.spec_from_file_location(name, file, loader=_Fresh(name, str(file)))
    if spec is None or spec.loader is None:
        raise _RefusedError(f"the hook's file {_shown(file, root)} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


class _Fresh(importlib.machinery.SourceFileLoader):
    """Compiles the hook's file anew: a cached module of the same second and length may be an older one."""

    def get_code(self, fullname: str) -> CodeType | None:
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)


def _find(module: ModuleType, function: str, shown: str, *, kind: str = "function") -> Callable[..., object]:
    found: object = module
    for part in function.split("."):
        found = getattr(found, part, None)
    if not callable(found):
        raise _RefusedError(f"{shown} has no {kind} {function}{_instead(module, function, kind)}")
    return found


def _instead(module: ModuleType, wanted: str, kind: str) -> str:
    """The name that was probably meant, or what the module defines."""
    import difflib

    there = {name: value for name, value in vars(module).items() if not name.startswith("_")}
    fit = [
        name
        for name, value in there.items()
        if callable(value) and isinstance(value, type) == (kind == "class")
    ]
    own = [name for name in fit if getattr(there[name], "__module__", "") == module.__name__]
    if close := difflib.get_close_matches(wanted, fit, 1):
        return f"; is it {close[0]}?"
    return f"; it defines {', '.join((own or fit)[:8])}" if own or fit else ""


def _arguments(
    function: Callable[..., object], required: dict[str, object], optional: dict[str, object]
) -> dict[str, object]:
    accepted, needed, takes_all = _parameters(function)
    name = getattr(function, "__qualname__", "the hook")
    if not takes_all and (missing := [key for key in required if key not in accepted]):
        signature = ", ".join(required)
        raise _RefusedError(
            f"{name} does not accept {', '.join(missing)}: it is called with {signature}, by keyword"
        )
    if unknown := [key for key in needed if key not in required and key not in optional]:
        raise _RefusedError(f"{name} wants {', '.join(unknown)}, which STITCH does not have")
    return {**required, **{key: value for key, value in optional.items() if takes_all or key in accepted}}


def _parameters(function: Callable[..., object]) -> tuple[list[str], list[str], bool]:
    """What can be passed by keyword, which of it has no default, and whether `**kwargs` takes all."""
    code: CodeType | None = getattr(function, "__code__", None)
    if code is None or hasattr(function, "__wrapped__") or hasattr(function, "__self__"):
        return _inspected(function)
    first, positional, count = code.co_posonlyargcount, code.co_argcount, code.co_kwonlyargcount
    names = list(code.co_varnames[: positional + count])
    defaults = len(getattr(function, "__defaults__", None) or ())
    with_default = {
        *names[positional - defaults : positional],
        *(getattr(function, "__kwdefaults__", None) or ()),
    }
    needed = [name for name in names if name not in with_default]
    return names[first:], needed, bool(code.co_flags & _VAR_KEYWORDS)


def _inspected(function: Callable[..., object]) -> tuple[list[str], list[str], bool]:
    import inspect

    parameters = inspect.signature(function).parameters.values()
    named = [p for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    takes_all = any(p.kind is p.VAR_KEYWORD for p in parameters)
    return [p.name for p in named], [p.name for p in named if p.default is p.empty], takes_all


def _as_given(name: str, value: object, root: Path) -> object:
    """What a name ends in decides its type: paths, and classes that are written as hooks are."""
    if isinstance(value, str) and name.endswith(("_path", "_dir")):
        return Path(value)
    if not isinstance(value, str) or not name.endswith("_class"):
        return value
    place, _, wanted = value.rpartition(":")
    if place.endswith(".py"):
        return _find(_load(root, root / place.replace("\\", "/")), wanted, place, kind="class")
    if str(root) not in sys.path:
        sys.path.insert(0, str(root))
    return _find(importlib.import_module(place), wanted, place, kind="class")


def plain(returned: Mapping[Any, object]) -> tuple[dict[str, object], dict[str, str]]:
    """A returned map as JSON values, and the type's name of whatever has no such value."""
    values: dict[str, object] = {}
    odd: dict[str, str] = {}
    for key, given in returned.items():
        # NumPy's and torch's scalars, not their arrays of one number.
        scalar = hasattr(given, "item") and getattr(given, "shape", None) == ()
        value = given.item() if scalar else given  # type: ignore[attr-defined]  # `scalar` looked for it
        if not isinstance(key, str):
            odd[str(key)] = f"a value under a key of type {type(key).__name__}"
        elif isinstance(value, bool | int | float):
            values[key] = value
        else:
            odd[key] = type(value).__name__
    return values, odd


def write_leaves(leaves: Any, to: Path) -> int:
    """Write the SHA-256 of each leaf, one after another, and count them: what a leaf holds stays here.

    Raises:
        TypeError: a leaf is no bytes.
    """
    import hashlib

    count = 0
    with to.open("wb") as sink:
        for leaf in leaves:
            if not isinstance(leaf, bytes | bytearray | memoryview):
                raise TypeError(f"leaves yields {type(leaf).__name__}, wanted bytes")
            sink.write(hashlib.sha256(leaf).digest())
            count += 1
    return count


def _exit_code(leaving: SystemExit) -> int:
    if leaving.code is None or isinstance(leaving.code, int):
        return leaving.code or 0
    print(leaving.code, file=sys.stderr)
    return 1


def _described(error: BaseException, root: Path, folder: Path) -> dict[str, str]:
    import traceback

    shown = error.__traceback__
    while shown and _is_ours(shown.tb_frame.f_globals):
        shown = shown.tb_next
    text = "".join(traceback.format_exception(type(error), error, shown))
    print(text, end="", file=sys.stderr)
    where = _where(error, root, folder)
    described = {"kind": type(error).__name__, "where": where, "traceback": text[-_MOST_TEXT:]}
    return described | _our_words(error)


def _our_words(error: BaseException) -> dict[str, str]:
    """The message of an error that clif-stitch itself raised in here, such as `stitch.learning` of a class.

    A stranger's message may name a patient and is kept with the traceback; ours is for the console.
    """
    import traceback

    step = error.__traceback__
    while step and step.tb_next:
        step = step.tb_next
    if not step or not str(step.tb_frame.f_globals.get("__name__")).startswith("stitch."):
        return {}  # not even looked at: a stranger's exception may not know its own words
    if not str(traceback.extract_tb(step)[-1].line).startswith("raise "):
        return {}  # Python's own words, which repeat values: could not convert 'Smith' to float
    said = str(error).strip().partition("\n")[0]
    if not said:
        return {}
    return {"said": said[:_MOST_SAID], "hint": str(getattr(error, "hint", ""))}


def _is_ours(names: dict[str, object]) -> bool:
    """Whether a frame is this file's or the import system's: no user wants to read those."""
    return str(names.get("__name__")).partition(".")[0] in (__name__, "importlib")


def _where(error: BaseException, root: Path, folder: Path) -> str:
    """`file:line` of the deepest frame in the user's own code, relative to the project."""
    places = []
    step = error.__traceback__
    while step:
        places.append((step.tb_frame.f_code.co_filename, step.tb_lineno))
        step = step.tb_next
    if isinstance(error, SyntaxError) and error.filename:
        places.append((error.filename, error.lineno or 0))
    for name, line in reversed(places):
        path = Path(name)
        for base in (root, folder):
            if path.is_relative_to(base) and not set(_FOREIGN) & set(path.relative_to(base).parts):
                return f"{_shown(path, root)}:{line}"
    return ""


def _shown(path: Path, root: Path) -> str:
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else path.name
