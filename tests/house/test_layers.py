"""The rooms and who may enter which: the contracts of pyproject.toml, kept."""

from __future__ import annotations

import os
import re
from collections import Counter

import pytest
from importlinter.cli import lint_imports

from tests.house.source import ROOT, modules

PROMISED = {
    "Rooms in layers: the top imports down, siblings do not import one another",
    "Decisions, documents and names are pure: no disk, network, process or clock",
    "Cloud SDKs stay in the store",
    "Retries live in store/retry.py alone",
}


def test_every_import_contract_is_kept(capsys: pytest.CaptureFixture[str]) -> None:
    exit_code = lint_imports(config_filename=os.fspath(ROOT / "pyproject.toml"), no_cache=True)
    printed = capsys.readouterr().out
    assert exit_code == 0, printed
    assert [name for name in PROMISED if name not in printed] == []


def test_every_room_has_an_init_that_says_what_it_is_for() -> None:
    rooms = {m.path.parent for m in modules("stitch")}
    inits = [m for m in modules("stitch") if m.path.name == "__init__.py"]
    said = {m.path.parent for m in inits if m.text.startswith('"""')}
    silent = [str(room) for room in sorted(rooms - said)]
    assert not silent, "\n".join(silent)


def test_the_map_names_every_module_once_in_its_room() -> None:
    """Otherwise whoever looks for a line reads a map of the house as it once was."""
    text = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    section = text.partition("## The modules of each room\n")[2].partition("\n## ")[0]
    told: Counter[tuple[str, str]] = Counter()
    for room, rows in re.findall(r"### `stitch/(\w+)/`\n(.*?)(?=\n### |\Z)", section, re.DOTALL):
        for _, cell in re.findall(r"^\| (.+) \| (.+) \|$", rows, re.MULTILINE):
            told.update((room, name) for name in re.findall(r"`(\w+)`", cell))
    there = Counter(
        (m.path.parts[1], m.path.stem)
        for m in modules("stitch")
        if len(m.path.parts) > 2 and not m.path.stem.startswith("__")
    )
    assert there, "no modules were found"
    lacking, gone = sorted(there - told), sorted(told - there)
    assert not lacking, f"docs/architecture.md, The modules of each room, lacks {lacking}"
    assert not gone, f"docs/architecture.md, The modules of each room, has {gone}: no such module, or twice"
