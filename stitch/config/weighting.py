"""`policy.weighting`: how much less a stale pass counts, as a value.

Sources: Nguyen et al., Federated Learning with Buffered Asynchronous Aggregation (FedBuff, AISTATS 2022), for
the polynomial; Xie et al., Asynchronous Federated Optimization (2019), for all three.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Literal, Self

SHAPES = '"constant", "polynomial(a)" with a > 0, or "hinge(a, b)" with a > 0 and b >= 0'

_TEXT = re.compile(r"\s*(constant|polynomial|hinge)\s*(?:\(([^()]*)\))?\s*\Z")
_ARGUMENTS = {"constant": 0, "polynomial": 1, "hinge": 2}


@dataclass(frozen=True, slots=True)
class Weighting:
    """A function of staleness: 1 at 0, never growing, never 0.

    Attributes:
        shape: which function.
        a: how steeply it falls.
        b: of a hinge, up to which staleness it does not fall.
    """

    shape: Literal["constant", "polynomial", "hinge"] = "constant"
    a: float = 0.0
    b: float = 0.0

    def at(self, staleness: int) -> float:
        """What the delta of a pass is multiplied with when `staleness` globals came since its base.

        constant: 1. polynomial(a): (1 + s)^-a. hinge(a, b): 1 up to b, then 1 / (a (s - b) + 1).
        """
        if self.shape == "polynomial":
            return float((1.0 + staleness) ** -self.a)
        if self.shape == "hinge" and staleness > self.b:
            return 1.0 / (self.a * (staleness - self.b) + 1.0)
        return 1.0

    def __str__(self) -> str:
        """The one way in which it is written where it is hashed: `polynomial(0.5)`, `hinge(10.0, 4.0)`."""
        numbers = {"constant": "", "polynomial": f"({self.a!r})", "hinge": f"({self.a!r}, {self.b!r})"}
        return self.shape + numbers[self.shape]

    @classmethod
    def parse(cls, text: str) -> Self:
        """The weighting that a text names.

        Raises:
            ValueError: it names none.
        """
        match = _TEXT.match(text)
        given = [] if match is None or match[2] is None else match[2].split(",")
        if match is None or len(given) != _ARGUMENTS[match[1]]:
            raise ValueError("no weighting")
        numbers = [float(number) for number in given]
        if not all(math.isfinite(number) for number in numbers) or (numbers and numbers[0] <= 0):
            raise ValueError("no weighting")
        if len(numbers) == 2 and numbers[1] < 0:
            raise ValueError("no weighting")
        shape: Literal["constant", "polynomial", "hinge"] = match[1]  # type: ignore[assignment]  # the pattern's
        return cls(shape, *numbers)


CONSTANT = Weighting()
"""Staleness changes nothing."""
