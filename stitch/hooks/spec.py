"""What a hook spec names: its file and function or its command, whether that is there, its hash."""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from stitch.errors import ConfigError
from stitch.hooks.call import HookSpec
from stitch.hooks.modules import find_module, is_package

_SOURCES = frozenset({".py", ".r"})
SCRIPTS = _SOURCES | {".jl", ".sh", ".pl", ".js", ".m", ".do", ".bat", ".cmd", ".ps1"}
_DOTTED = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
_RISKY = {
    "pkl": "pickle runs code when it is opened",
    "pickle": "pickle runs code when it is opened",
    "joblib": "joblib is pickle, which runs code when it is opened",
    "pt": "torch.load may unpickle, which runs code",
    "pth": "torch.load may unpickle, which runs code",
    "ckpt": "checkpoints are mostly pickles, which run code when they are opened",
    "dill": "dill is pickle, which runs code when it is opened",
    "rds": "readRDS restores promises and functions, which may run code",
    "rdata": "load() restores promises and functions, which may run code",
}


@dataclass(frozen=True, slots=True)
class PythonHook:
    """A function in a file; `file` is absolute."""

    file: Path
    function: str


@dataclass(frozen=True, slots=True)
class ModuleHook:
    """A function in a module that can be imported: an installed package's, or the project's own."""

    module: str
    function: str


@dataclass(frozen=True, slots=True)
class CommandHook:
    """A command with its arguments, as written."""

    argv: tuple[str, ...]


def parse_spec(root: Path, spec: HookSpec) -> PythonHook | ModuleHook | CommandHook:
    """Read a spec; nothing is looked up.

    Backslashes in the file's path are slashes: one stitch.toml serves Windows and the others.

    Raises:
        ConfigError: it is neither `path/file.py:function` nor `package.module:function` nor a command.
    """
    if not isinstance(spec, str):
        if not spec or not all(isinstance(part, str) for part in spec) or not spec[0]:
            raise ConfigError(
                f"the hook {list(spec)!r} is no command", hint='Write ["Rscript", "code/train.R"].'
            )
        return CommandHook(tuple(spec))
    file, colon, function = spec.rpartition(":")
    named = colon and _DOTTED.fullmatch(function)
    if named and not file.endswith(".py") and _DOTTED.fullmatch(file):
        return ModuleHook(file, function)
    if not named or not file.endswith(".py"):
        raise ConfigError(
            f'the hook "{spec}" does not name a Python function',
            hint='Write "code/train.py:train", or a command as a list: ["Rscript", "code/train.R"].',
        )
    return PythonHook(root.absolute() / file.replace("\\", "/"), function)


def hook_name(spec: HookSpec) -> str:
    """The spec as a person reads it, on one line."""
    return spec if isinstance(spec, str) else " ".join(spec)


def find_command(argv: Sequence[str], *, root: Path, environ: Mapping[str, str]) -> str | None:
    """The absolute path of a command's program: on PATH, or relative to the project; None if absent.

    On Windows the endings of PATHEXT are tried, so `Rscript` finds `Rscript.exe` and a `.bat`.
    """
    program = argv[0]
    if "/" in program or "\\" in program:
        local = root.absolute() / program.replace("\\", "/")
        return shutil.which(str(local)) or shutil.which(program)
    return shutil.which(program, path=environ.get("PATH"))


def missing_script(hook: CommandHook, root: Path) -> str:
    """The first argument that is a script's name without a script behind it, "" if there is none."""
    for part in hook.argv[1:]:
        if Path(part).suffix.lower() in SCRIPTS and not part.startswith("-") and not (root / part).is_file():
            return part
    return ""


def hooks_sha256(root: Path, specs: Sequence[HookSpec]) -> str:
    r"""One hash of the hooks' sources, to see who runs different hooks.

    It covers the specs and every `*.py` and `*.R` file in the folders that hold them (not in
    folders below), with line ends as `\n` and without a byte order mark: a Windows checkout agrees.
    Of a module's hook these are the files of its folder, of a package's those below it as well,
    under their names as modules: wherever a package is installed, it has the same hash.

    Returns:
        64 hex digits.

    Raises:
        ConfigError: a spec cannot be read, or a hook's file or module does not exist.
    """
    files = hook_sources(root, specs)
    digest = hashlib.sha256()
    for part in sorted({hook_name(spec).replace("\\", "/") for spec in specs}):
        digest.update(f"spec {part}\n".encode())
    for name in sorted(files):
        data = files[name].read_bytes().removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n")
        digest.update(f"file {name} {len(data)}\n".encode() + data)
    return digest.hexdigest()


def hook_sources(root: Path, specs: Sequence[HookSpec]) -> dict[str, Path]:
    """The files that `hooks_sha256` covers, by the names under which it does.

    Raises:
        ConfigError: a spec cannot be read, or a hook's file or module does not exist.
    """
    files: dict[str, Path] = {}
    for spec in specs:
        hook = parse_spec(root, spec)
        if isinstance(hook, ModuleHook):
            files |= _module_files(hook, module_file(root, hook))
            continue
        for source in _hook_files(root, hook):
            beside = (path for path in source.parent.iterdir() if path.suffix.lower() in _SOURCES)
            for path in (source, *beside):
                if path.is_file():
                    files[_relative(path, root)] = path
    return files


def module_file(root: Path, hook: ModuleHook) -> Path:
    """Where a hook's module lies; nothing of it is imported.

    Raises:
        ConfigError: there is no such module.
    """
    file = find_module(root, hook.module)
    if file is None:
        raise ConfigError(
            f"the hook's module {hook.module} is not installed",
            hint='Install it here (`uv add ...`); a file of the project is "code/train.py:train".',
        )
    return file


def _module_files(hook: ModuleHook, file: Path) -> dict[str, Path]:
    """Its sources by their names as modules; a compiled module is itself alone."""
    parts = hook.module.split(".")
    if is_package(file):
        beside, prefix = file.parent.rglob("*"), parts
    else:
        beside, prefix = file.parent.glob("*"), parts[:-1]
    sources = [path for path in beside if path.suffix.lower() in _SOURCES and path.is_file()]
    return {
        "/".join([*prefix, *path.relative_to(file.parent).parts]): path for path in sorted({file, *sources})
    }


def _hook_files(root: Path, hook: PythonHook | CommandHook) -> list[Path]:
    if isinstance(hook, PythonHook):
        if not hook.file.is_file():
            raise ConfigError(
                f"the hook's file {_relative(hook.file, root)} does not exist",
                hint="Paths in [hooks] are relative to the folder of stitch.toml.",
            )
        return [hook.file]
    local = (root.absolute() / part.replace("\\", "/") for part in hook.argv if not part.startswith("-"))
    return [path for path in local if path.is_file() and path.is_relative_to(root.absolute())]


def _relative(path: Path, root: Path) -> str:
    base = root.absolute()
    return path.relative_to(base).as_posix() if path.is_relative_to(base) else path.name


def risky_extension(ext: str) -> str:
    """Why a model format may run code at whoever opens it; "" for a format that does not.

    Args:
        ext: with or without its dot, in any case.
    """
    return _RISKY.get(ext.lower().lstrip("."), "")
