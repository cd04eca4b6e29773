"""The project on this machine: its settings, hooks, disk and names."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path

from stitch.cli.checks import Check, broken, fail, ok, warn
from stitch.client.pins import pinned
from stitch.config import names
from stitch.config.environment import ENV_FILES, is_store_variable, parse_env
from stitch.config.explain import nearest
from stitch.config.settings import Settings
from stitch.config.text import read_text
from stitch.config.urls import repair_url
from stitch.errors import DiskError, HookError, PinMismatch, StitchError
from stitch.hooks import HookName, HookSpec, check_spec, risky_extension

_SYNCED = re.compile(
    r"(onedrive|dropbox|icloud|googledrive|google drive|nextcloud|owncloud|box-box|box sync)\b.*"
    r"|box|mobile documents|cloudstorage|my drive",
    re.IGNORECASE,
)
_SKIPPED = frozenset({".git", ".venv", "venv", "node_modules", "__pycache__", "stitch_store", "runs", "data"})
_MOST_PATHS = 20_000
_LONGEST = 200
# The longest path below a project that the mirror makes, with a stored digest and a staging name.
_MIRROR_TAIL = len("/stitch_store//sites//events/pass_0000.completed.10.json") + 40


def environment(settings: Settings, process: Mapping[str, str]) -> Iterator[Check]:
    """The store variables: mangled, mistyped, in two places."""
    name = "environment"
    found: dict[str, dict[str, str]] = {
        file: parse_env(read_text(settings.root / file), file=file)
        for file in ENV_FILES
        if (settings.root / file).is_file()
    }
    if len(found) == 2:
        yield warn(name, ".env and .env.txt both exist; .env wins", todo="Delete .env.txt.")
    written = {key: value for file in reversed(ENV_FILES) for key, value in found.get(file, {}).items()}
    for key in sorted(written):
        if is_store_variable(key) and process.get(key) and process[key] != written[key]:
            yield warn(
                name, f"{key} is set outside .env too, and that wins", todo=f"Unset {key} or drop its line."
            )
    lanes = {names.lane_variable(site) for site in settings.sites}
    valid = {"STITCH_STORE", "STITCH_STORE_GLOBAL", "STITCH_STORE_SITE", "STITCH_STORE_HEARTBEAT", *lanes}
    for key in sorted(key for key in settings.environ if key.startswith("STITCH_STOR") and key not in valid):
        close = nearest(key, valid)
        yield warn(name, f"{key} means nothing here", todo=f"Is it {close}?" if close else "Remove it.")
    for key in sorted(key for key in settings.environ if key in valid and settings.environ[key]):
        _, notes = repair_url(settings.environ[key])
        if notes:
            cut = any("cut" in note for note in notes)
            todo = "Copy the whole URL again" if cut else "Nothing is lost: it was mended while reading"
            yield warn(name, f"{key}: {'; '.join(notes)}", todo=f"{todo}; `clif-stitch setup` writes it.")


def secret_file(root: Path) -> Iterator[Check]:
    """Whether git would take `.env` along."""
    git = shutil.which("git")
    if git is None or not (root / ".env").is_file():
        return
    try:
        inside = _git(git, root, "rev-parse", "--is-inside-work-tree") == 0
        tracked = inside and _git(git, root, "ls-files", "--error-unmatch", ".env") == 0
        ignored = inside and _git(git, root, "check-ignore", "-q", ".env") == 0
    except (OSError, subprocess.TimeoutExpired):
        return
    if tracked:
        yield broken(
            "secrets", ".env is committed to git", todo="git rm --cached .env, and ask the lead for new URLs."
        )
    elif inside and not ignored:
        yield warn("secrets", "git does not ignore .env", todo='Add a line ".env" to .gitignore.')
    elif ignored:
        yield ok("secrets", ".env stays out of git")


def _git(git: str, root: Path, *words: str) -> int:
    done = subprocess.run([git, "-C", str(root), *words], capture_output=True, timeout=10, check=False)
    return done.returncode


def data_folder(settings: Settings) -> Iterator[Check]:
    """The folder of the site's tables."""
    if settings.data_dir.is_dir():
        yield ok("data", f"{settings.data_dir}")
    else:
        yield broken(
            "data", f"{settings.data_dir} is no folder", todo="Correct data_directory: `clif-stitch setup`."
        )


def hooks(settings: Settings) -> Iterator[Check]:
    """Whether the hooks this actor runs are there, can be imported, and take the arguments given."""
    own = settings.hooks
    wanted: list[tuple[str, HookName | None, HookSpec | None]] = [
        ("hook train", "train", own.train),
        ("hook evaluate", "evaluate", own.evaluate),
        ("hook leaves", "leaves", own.leaves),
        ("hook admit", "admit", own.admit),
        ("hook pre_release", "pre_release", settings.privacy.pre_release),
    ]
    if settings.is_lead:
        central = settings.privacy.mode == "central"  # the aggregation is then clif-stitch's own
        wanted.append(("hook evaluate_central", "evaluate_central", own.evaluate_central))
        wanted += [
            ("hook aggregate", "aggregate", None if central else own.aggregate),
            ("hook diagnose", "diagnose", own.diagnose),
            ("hook pre_aggregate", "pre_aggregate", own.pre_aggregate),
        ]
    for name, hook, spec in wanted:
        if spec is None:
            continue
        try:
            check_spec(settings.root, spec, hook=hook)
        except HookError as error:
            # The hook's own words are for the person at this machine; they never leave it (law 8).
            said = error.detail.strip().rpartition("\n")[2]
            finding = (
                f"{error} ({said})" if said and said.partition(": ")[2] not in str(error) else str(error)
            )
            todo = "Correct the hook, or install what it imports: `uv sync`."
            if missing := re.search(r"No module named '(\w+)", said):
                todo = f"The lead: `uv add {missing[1]}`, and send pyproject.toml. A site: `uv sync`."
            yield broken(name, finding, todo=todo, kind=type(error))
        except StitchError as error:
            yield fail(name, error)
        else:
            yield ok(name, spec if isinstance(spec, str) else " ".join(spec))


def pins(settings: Settings) -> Iterator[Check]:
    """Whether every pinned file has the bytes agreed on."""
    if not settings.pins:
        return
    try:
        pinned(settings, 2)  # those that every pass needs
    except PinMismatch as error:
        yield fail("pins", error)
        return
    try:
        pinned(settings, 1)
    except PinMismatch as error:
        yield warn("pins", str(error), todo="Get it before pass 1, which alone needs it.")
        return
    yield ok("pins", f"as agreed: {', '.join(settings.pins)}")


def model_format(settings: Settings) -> Iterator[Check]:
    """Whether opening a stranger's model could run code."""
    ext = settings.hooks.model_ext
    why = risky_extension(ext)
    if why:
        yield warn(
            "model", f".{ext}: {why}", todo="Use a format of plain numbers: npz, json, safetensors, ubj."
        )
    else:
        yield ok("model", f".{ext} is plain data")


def disk(settings: Settings) -> Iterator[Check]:
    """Whether the mirror can be written, and has room for ten of the largest models."""
    need = 10 * settings.transfer.max_bytes
    # The mirror may lie on another disk than the project.
    folders = {_nearest(settings.mirror_dir), _nearest(settings.runs_dir)}
    here = settings.root
    try:
        for here in sorted(folders):
            with tempfile.TemporaryFile(dir=here):
                pass
        free = shutil.disk_usage(_nearest(settings.mirror_dir)).free
    except OSError as error:
        yield broken(
            "disk",
            f"{here} cannot be written: {error.strerror}",
            todo="Mend the folder's permissions, or clone the project elsewhere.",
            kind=DiskError,
        )
        return
    found = f"{free / 1e9:.1f} GB free"
    if free < 2 * settings.transfer.max_bytes:
        yield broken("disk", found, todo="Free space: a pass needs two models at least.", kind=DiskError)
    elif free < need:
        yield warn(
            "disk", found, todo=f"Free space up to {need / 1e9:.1f} GB, or lower transfer.max_file_mb."
        )
    else:
        yield ok("disk", found)


def _nearest(folder: Path) -> Path:
    """The folder, or the first one above it that exists."""
    return next(place for place in (folder, *folder.parents) if place.is_dir())


def synced_part(path: Path) -> str:
    """The part of a path that says some program copies it between machines, "" if none does."""
    return next((part for part in path.parts if _SYNCED.fullmatch(part)), "")


def place(root: Path) -> Iterator[Check]:
    """Whether the project lies in a folder that is copied elsewhere."""
    part = synced_part(root) or synced_part(root.resolve())
    if part:
        yield warn(
            "place",
            f"the project is inside the synced folder {part!r}: logs and the mirror would be copied",
            todo="Clone it outside of Box, OneDrive, Dropbox and iCloud.",
        )
    else:
        yield ok("place", f"{root}")


def portable(root: Path) -> Iterator[Check]:
    """Whether every file name works on Windows, macOS and Linux alike."""
    found = list(islice(_unportable(root), 4))
    for finding in found[:3]:
        yield warn("names", finding, todo="Rename it.")
    if len(found) > 3:
        yield warn("names", "and more", todo="Rename them too.")
    if not found:
        yield ok("names", "every file name works on Windows, macOS and Linux")


def _unportable(root: Path) -> Iterator[str]:
    seen: dict[str, str] = {}
    for path in islice(_walk(root), _MOST_PATHS):
        name, relative = path.name, path.relative_to(root).as_posix()
        folded = relative.casefold()
        if folded in seen:
            yield f"{seen[folded]} and {relative} are one file where case does not count"
        seen[folded] = relative
        if names.is_device_name(name):
            yield f"{relative} is a device on Windows"
        elif re.search(r'[<>:"|?*\\\x00-\x1f]|[. ]\Z', name):
            yield f"{relative} cannot exist on Windows"
        elif len(relative) > _LONGEST:
            yield f"{relative[:60]}... is longer than {_LONGEST} characters"


def _walk(root: Path) -> Iterator[Path]:
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(name for name in folders if name not in _SKIPPED)
        yield from (Path(folder) / name for name in [*folders, *sorted(files)])


def long_paths(settings: Settings, *, windows: bool = sys.platform == "win32") -> Iterator[Check]:
    """Whether the mirror's paths stay within 260 characters on Windows, unless it allows more."""
    longest = len(str(settings.root)) + _MIRROR_TAIL + len(settings.run_id) + max(map(len, settings.sites))
    if not windows:
        return
    if longest <= 255 or _long_paths_enabled():
        yield ok("paths", f"the mirror's paths have up to {longest} characters")
    else:
        yield warn(
            "paths",
            f"the mirror's paths have up to {longest} characters, and Windows allows 260",
            todo="Move the project nearer to the drive's root, or have LongPathsEnabled set.",
        )


def _long_paths_enabled() -> bool:
    if sys.platform != "win32":
        return False
    import winreg  # noqa: PLC0415  exists on Windows alone

    try:
        where = r"SYSTEM\CurrentControlSet\Control\FileSystem"
        with winreg.OpenKey(winreg.HKEY_LOCAL_MACHINE, where) as key:
            return bool(winreg.QueryValueEx(key, "LongPathsEnabled")[0])
    except OSError:
        return False
