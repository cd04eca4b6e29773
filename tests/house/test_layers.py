"""The rooms and who may enter which: the contracts of pyproject.toml, kept."""

from __future__ import annotations

import os

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
