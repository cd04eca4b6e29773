"""Random histories of federations that evaluate each global: scores change nothing of what is kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from stitch.testing.processes import Process
from tests.property.chaos import HOOK_FAILURE, Chaos, HookTrouble
from tests.property.laws import check

HISTORIES = 20


class Evaluated(Chaos):
    """A history in which the evaluate hook fails now and then, or is slow."""

    def __init__(self, seed: int, folder: Path) -> None:
        super().__init__(seed, folder)
        self.federation.scores, self.federation.central = True, seed % 2 == 1

    def _before(self, process: Process, what: str, *, key: str) -> None:
        if self.wild and what in ("evaluate", "evaluate_central"):
            if self.chance.random() < HOOK_FAILURE:
                self.say(f"{process}: the {what} hook fails at {key}")
                raise HookTrouble(f"patient 4711 broke the {what} hook")
            if self.left > 0 and len(self.federation.stack) < 4 and self.chance.random() < 0.3:
                self._meanwhile(process, f"{what} {key}")
            return
        super()._before(process, what, key=key)


@pytest.mark.parametrize("seed", range(HISTORIES))
def test_a_federation_that_evaluates_keeps_the_laws(folder: Path, seed: int) -> None:
    history = Evaluated(seed, folder)
    try:
        history.run()
        check(history.federation)
    except Exception:
        print("\n".join(history.trace))
        raise
