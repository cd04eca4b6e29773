"""Where the module of a hook lies, found without importing any of it: a stranger's code runs in its child.

`importlib.util.find_spec("a.b")` would import `a` into this process (law 9), so the search goes down the
packages by itself.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import sys
from collections.abc import Iterable
from pathlib import Path


def find_module(root: Path, name: str) -> Path | None:
    """The file of the module `name`: in the project first, then among what is installed.

    Args:
        root: the project folder.
        name: dotted, `package.module`.

    Returns:
        The module's file, of a package its `__init__` file; None if there is none, or if it has no
        file of its own (a namespace, a built-in module).
    """
    top, *below = name.split(".")
    found = _at_the_top(root.absolute(), top)
    full = top
    for part in below:
        places = None if found is None else found.submodule_search_locations
        if places is None:
            return None
        full = f"{full}.{part}"
        found = _in_package(full, places)
    if found is None or not found.has_location or found.origin is None:
        return None
    return Path(found.origin)


def is_package(file: Path) -> bool:
    """Whether a module's file is a package's."""
    return file.name.partition(".")[0] == "__init__"


def _at_the_top(root: Path, name: str) -> importlib.machinery.ModuleSpec | None:
    local = importlib.machinery.PathFinder.find_spec(name, [str(root)])
    if local is not None and local.origin is not None:
        return local
    try:
        installed = importlib.util.find_spec(name)
    except ValueError:  # a module of this process without a spec, such as __main__
        return None
    return installed or local


def _in_package(full: str, places: Iterable[str]) -> importlib.machinery.ModuleSpec | None:
    folders = list(places)
    for finder in sys.meta_path:
        try:
            found = finder.find_spec(full, folders)
        except KeyError:  # a namespace below a package that is not imported: it is its folders alone
            found = importlib.machinery.ModuleSpec(full, None, is_package=True)
            leaf = full.rpartition(".")[2]
            found.submodule_search_locations = [
                str(Path(folder) / leaf) for folder in folders if (Path(folder) / leaf).is_dir()
            ]
        if found is not None:
            return found
    return None
