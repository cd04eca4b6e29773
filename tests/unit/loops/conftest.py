"""Federations in memory, whose processes end with the test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from stitch.testing.federation import Federation

Begin = Callable[..., Federation]
"""Makes a federation, from what `Federation` is given after its folder."""


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Begin]:
    begun: list[Federation] = []

    def build(**given: Any) -> Federation:
        begun.append(Federation(tmp_path, **given))
        return begun[-1]

    yield build
    for federation in begun:
        for process in federation.alive():
            process.kill()
